# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The libraries that run.py compares: where they come from, how their programs are built and started, and the settings
that serve them best between processes of one machine. The loop binds processes itself, so launchers are told not to."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
CXX = [*shlex.split(os.environ.get("CXX", "g++")), "-std=c++20", "-O2"]
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather")


@dataclass
class Peer:
    name: str
    detail: str = None  # below the name in the table; the version if none is given
    kind: str = "peer"  # or "ours", or "limit"
    build: list = ()  # a command, but for -o
    launch: list = ()  # what goes before the program
    variants: tuple = ("",)
    collectives: tuple = COLLECTIVES
    needs: tuple = ()  # files and commands: without any one of them it is absent
    packages: tuple = ()  # that bring it: PyPI's, into a folder, or else Debian's
    folder: pathlib.Path = None
    settings: dict = field(default_factory=dict)  # of the environment, always
    transports: dict = field(default_factory=lambda: {"shm": {}})  # and for each that it has
    crowded: dict = field(default_factory=dict)  # and when ranks outnumber processors

    def environment(self, given):
        crowded = self.crowded if given.ranks > len(os.sched_getaffinity(0)) else {}
        return {**self.settings, **self.transports.get(given.transport, {}), **crowded}

    def missing(self):
        return any(shutil.which(need) is None and not os.path.exists(need) for need in map(str, self.needs))

    def left_out(self, given):
        """Why it is not in the comparison, or nothing."""
        if self.missing():
            source = f"PyPI, in {self.folder}" if self.folder else "Debian"
            return f"is not installed ({' '.join(self.packages)} of {source})"
        if given.collective not in self.collectives:
            return f"has no {given.collective}"
        return None if given.transport in self.transports else f"has no transport over {given.transport}"


def ours(name, source, *flags, **more):
    include = str(HERE.parent.parent / "include")
    return Peer(name, build=[*CXX, "-I", include, "-pthread", str(HERE / source), *flags], **more)


def mpi(name, compiler, launcher, packages, folder=None, **more):
    if folder:
        compiler, launcher = folder / "bin" / compiler, folder / "bin" / launcher
    return Peer(name, build=[str(compiler), "-std=c++20", "-O2", str(HERE / "mpi.cpp")], needs=(compiler, launcher),
                launch=[str(launcher), "-n", "{ranks}"], packages=packages, folder=folder, **more)


def open_mpi(*where):
    # Versions 4 and 5, as any user.
    return mpi("Open MPI", *where, crowded={"OMPI_MCA_mpi_yield_when_idle": "1"},
               transports={"shm": {}, "tcp": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"}},
               settings={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                         "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                         "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                         "PRTE_MCA_hwloc_default_binding_policy": "none",
                         "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"})


def mpich(*where):
    # Where ranks outnumber processors it yields to nobody, whatever MPIR_CVAR_POLLS_BEFORE_YIELD says, and crawls.
    return mpi("MPICH", *where, transports={"shm": {}, "tcp": {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self"}})


def intel(name, source, links, packages, folder, settings=None):
    # Without its compiler wrappers, which look for it in a path that was never filled in. What libccl.so itself needs
    # is found through an rpath only, not a runpath.
    paths = [f"-I{folder}/include", f"-L{folder}/lib", f"-Wl,-rpath,{folder}/lib,--disable-new-dtags"]
    launcher = folder / "bin/mpiexec.hydra"
    return Peer(name, build=[*CXX, "-w", str(HERE / source), *paths, *links], launch=[str(launcher), "-n", "{ranks}"],
                needs=(launcher,), packages=packages, folder=folder,
                settings={"I_MPI_ROOT": str(folder), "I_MPI_PIN": "0", **(settings or {})},
                transports={"shm": {"I_MPI_FABRICS": "shm"}, "tcp": {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"}})


def known(folder):
    """All that can be compared. What comes from PyPI is in subfolders, for they hold files of the same names."""
    ccl = folder / "oneccl"
    return [
        ours("limit", "limit.cpp", "-march=native", detail="", kind="limit", variants=("plain", "streaming")),
        ours("ringlet", "ringlet.cpp", detail="ordinary", kind="ours", variants=("ordinary",)),
        ours("ringlet", "ringlet.cpp", detail="allocated", kind="ours", variants=("allocated",)),
        open_mpi("mpicxx.openmpi", "mpirun.openmpi", ("openmpi-bin", "libopenmpi-dev")),
        open_mpi("mpicxx", "mpirun", ("openmpi",), folder / "openmpi"),
        mpich("mpicxx.mpich", "mpiexec.mpich", ("mpich", "libmpich-dev")),
        mpich("mpicxx", "mpiexec", ("mpich",), folder / "mpich"),
        intel("Intel MPI", "mpi.cpp", ["-lmpi"], ("impi-devel",), folder / "impi"),
        # oneccl-cpu would do, but lacks a library that its own needs. Workers would take the ranks' processors away.
        intel("oneCCL", "oneccl.cpp", ["-lccl", "-lmpi"], ("oneccl-devel", "impi-devel"), ccl,
              {"CCL_ROOT": str(ccl), "CCL_WORKER_OFFLOAD": "0", "CCL_LOG_LEVEL": "error"}),
        ours("Gloo", "gloo.cpp", "-lgloo", detail="TCP", variants=("ring", "halving_doubling"),
             collectives=("all_reduce", "all_gather"), transports={"shm": {}, "tcp": {}},
             needs=("/usr/include/gloo/allreduce.h",), packages=("libgloo-dev",)),
    ]


def install(peers, apt):
    """Gets what is missing: from PyPI, each into a virtual environment; from Debian, if asked to."""
    for peer in filter(Peer.missing, peers):
        if not peer.folder and not apt:
            continue
        print(f"installing {' '.join(peer.packages)}", flush=True)
        if peer.folder:
            subprocess.run([sys.executable, "-m", "venv", str(peer.folder)], check=True)
            subprocess.run([str(peer.folder / "bin/pip"), "-q", "install", *peer.packages], check=True)
        else:
            subprocess.run(["apt-get", "-qq", "install", "-y", "--no-install-recommends", *peer.packages], check=True,
                           stdout=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
