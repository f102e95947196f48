// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The table of contents, in reading order. A header includes only headers that stand above it.
// clang-format off

// Words that everything uses.
#include "ringlet/config.hpp"
#include "ringlet/clock.hpp"
#include "ringlet/error.hpp"
#include "ringlet/slice.hpp"

// Values: they are computed, also by the compiler, and touch nothing.
#include "ringlet/schedule.hpp"
#include "ringlet/cost.hpp"
#include "ringlet/element.hpp"
#include "ringlet/reduction.hpp"
#include "ringlet/worker.hpp"
#include "ringlet/selection.hpp"

// Contracts: what operations ask of transports, and no more.
#include "ringlet/call.hpp"
#include "ringlet/link.hpp"
#include "ringlet/mapped_peers.hpp"
#include "ringlet/chords.hpp"
#include "ringlet/store.hpp"
#include "ringlet/transport.hpp"

// Operations: the algorithm and its arithmetic. They name no transport.
#include "ringlet/combine.hpp"
#include "ringlet/operation.hpp"
#include "ringlet/direct.hpp"
#include "ringlet/rooted.hpp"
#include "ringlet/chord_operation.hpp"

// Transports: memory and notice. They name no operation.
#include "ringlet/transport/bell.hpp"
#include "ringlet/transport/slot_ring.hpp"
#include "ringlet/transport/segment.hpp"
#include "ringlet/transport/segment_pairs.hpp"
#include "ringlet/transport/in_process.hpp"
#include "ringlet/transport/memory_file.hpp"
#include "ringlet/transport/hand_over.hpp"
#include "ringlet/transport/shared_memory.hpp"

// How ranks find each other.
#include "ringlet/bootstrap/memory_store.hpp"
#include "ringlet/bootstrap/roster.hpp"
#include "ringlet/bootstrap/launch.hpp"

// Where both sides meet, and what users call.
#include "ringlet/counters.hpp"
#include "ringlet/communicator.hpp"
#include "ringlet/collective_operation.hpp"
#include "ringlet/all_reduce.hpp"
#include "ringlet/reduce_scatter.hpp"
#include "ringlet/all_gather.hpp"
#include "ringlet/broadcast.hpp"
#include "ringlet/reduce.hpp"
#include "ringlet/barrier.hpp"
#include "ringlet/allocate.hpp"
#include "ringlet/split.hpp"

// Not included, for not every program wants them, or has what they need. Messages between any two ranks; chunks of all
// ranks to one, and back, by these:
//   ringlet/point_to_point.hpp
//   ringlet/gather_scatter.hpp
// Ranks along several axes, each with a transport of its own:
//   ringlet/mesh.hpp
// The proof of schedules and operations, a transport that the compiler runs; pictures of schedules:
//   ringlet/prove.hpp
//   ringlet/draw.hpp
// The orders of work in a pipeline of stages, proved and drawn:
//   ringlet/pipeline.hpp
// What ringlet-perf has found to be fastest on a machine:
//   ringlet/tuning_file.hpp
// Gradients in buckets, exchanged while the backward pass computes; a thread that does the polling:
//   ringlet/bucketer.hpp
//   ringlet/progress_thread.hpp
// A model that no rank holds whole: weights gathered for use, gradients scattered:
//   ringlet/sharded.hpp
// Ranks that torchrun, Open MPI, MPICH or Slurm have started (needs Asio):
//   ringlet/bootstrap/from_environment.hpp
// Ranks of several machines, over any network that libfabric knows (needs its headers; the library is loaded while
// running):
//   ringlet/transport/fabric.hpp
// All-reduce over two transports, one inside hosts and one between them; which ranks share a host:
//   ringlet/hierarchical.hpp
//   ringlet/bootstrap/same_host.hpp
// One ring over two transports, link by link:
//   ringlet/transport/mixed.hpp
// What runs on devices, and as if on one; the collectives as kernels; their launches (for nvcc):
//   ringlet/kernel.hpp
//   ringlet/emulated_kernel.hpp
//   ringlet/cuda_kernels.hpp
//   ringlet/direct_kernel.hpp
//   ringlet/line_kernel.hpp
//   ringlet/cuda.hpp
//   ringlet/cuda_elements.hpp
// Ranks with a GPU each, or one among them, on one machine; collectives in streams; the same without a GPU:
//   ringlet/transport/device_runtime.hpp
//   ringlet/transport/emulated_runtime.hpp
//   ringlet/transport/cuda_runtime.hpp
//   ringlet/transport/cuda_ipc.hpp
//   ringlet/stream_steps.hpp
//   ringlet/on_stream.hpp
// Memory of devices over any other transport, as between hosts:
//   ringlet/through_host.hpp
// A ring on a virtual clock, to try schedules, sizes, loss and death on; the engine on it, and whole programs:
//   ringlet/transport/simulated_settings.hpp
//   ringlet/transport/simulated.hpp
//   ringlet/transport/simulated_ring.hpp
//   ringlet/simulate.hpp
//   ringlet/simulate_program.hpp
// A training run divided along four axes: what each sends, computes and holds; which axis can live with which link:
//   ringlet/training_cost.hpp
//   ringlet/planner.hpp
