// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "ringlet/cuda.hpp"
#include "ringlet/error.hpp"
#include "ringlet/kernel.hpp"
#include "ringlet/transport/device_runtime.hpp"

namespace ringlet {

/// CUDA as a `device_runtime`. For nvcc. What only the driver has is looked up while running, so that a program which
/// is linked with the static runtime alone starts on a machine without a driver, and finds no device there.
class cuda_runtime {
 public:
  static constexpr char const* name = "cuda";
  using stream = cudaStream_t;
  using event = cudaEvent_t;
  using handle = cudaIpcMemHandle_t;

  // As `device_runtime` says.
  static int devices() {
    check_process();
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess) return n;
    (void)cudaGetLastError();
    return 0;
  }
  static int device() {
    int d = 0;
    check_cuda(cudaGetDevice(&d), "cudaGetDevice");
    return d;
  }
  static void use(int d) { check_cuda(cudaSetDevice(d), "cudaSetDevice"); }
  static device_id id(int d) {
    cudaDeviceProp properties;
    check_cuda(cudaGetDeviceProperties(&properties, d), "cudaGetDeviceProperties");
    device_id i;
    static_assert(sizeof i.bytes == sizeof properties.uuid.bytes);
    std::memcpy(i.bytes, properties.uuid.bytes, sizeof i.bytes);
    return i;
  }
  static bool can_access(int d, device_id const& other) {
    int const its = number_of(other);
    if (its < 0 || its == d) return true;  // CUDA says no of a device and itself
    int can = 0;
    check_cuda(cudaDeviceCanAccessPeer(&can, d, its), "cudaDeviceCanAccessPeer");
    return can != 0;
  }
  static void enable_access(device_id const& other) {
    int const its = number_of(other);
    if (its < 0 || its == device()) return;
    cudaError_t const result = cudaDeviceEnablePeerAccess(its, 0);
    if (result != cudaErrorPeerAccessAlreadyEnabled) return check_cuda(result, "cudaDeviceEnablePeerAccess");
    (void)cudaGetLastError();
  }

  static void* allocate(std::size_t bytes) {
    check_process();
    void* p = nullptr;
    check_cuda(cudaMalloc(&p, bytes), "cudaMalloc");
    cudaError_t zeroed = cudaMemset(p, 0, bytes);
    if (zeroed == cudaSuccess) zeroed = cudaStreamSynchronize(cudaStreamLegacy);  // or streams might overtake it
    if (zeroed != cudaSuccess) (void)cudaFree(p);
    check_cuda(zeroed, "cudaMemset");
    return p;
  }
  static void release(void* p) { check_cuda(cudaFree(p), "cudaFree"); }
  static std::pair<void*, std::size_t> block_of(void const* p) {
    static auto const range =
        driver<CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr)>("cuMemGetAddressRange", 3020);
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    check_driver(range(&base, &bytes, reinterpret_cast<CUdeviceptr>(p)), "cuMemGetAddressRange");
    return {reinterpret_cast<void*>(base), bytes};
  }
  static handle share(void const* p) {
    static auto const attribute =
        driver<CUresult (*)(void*, CUpointer_attribute, CUdeviceptr)>("cuPointerGetAttribute", 4000);
    int capable = 1;
    if (attribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, reinterpret_cast<CUdeviceptr>(p)) ==
            CUDA_SUCCESS &&
        capable == 0)
      throw error(
          errc::unsupported,
          "memory of CUDA's virtual memory management or of a pool has no IPC handle: use memory of cudaMalloc");
    handle h;
    check_cuda(cudaIpcGetMemHandle(&h, const_cast<void*>(p)), "cudaIpcGetMemHandle");
    return h;
  }
  static void* open(handle const& h) {
    check_process();
    void* p = nullptr;
    check_cuda(cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
    return p;
  }
  static void close(void* p) { check_cuda(cudaIpcCloseMemHandle(p), "cudaIpcCloseMemHandle"); }
  static void* map_host(void* p, std::size_t bytes) {
    check_cuda(cudaHostRegister(p, bytes, cudaHostRegisterMapped | cudaHostRegisterPortable), "cudaHostRegister");
    void* on_device = nullptr;
    cudaError_t const found = cudaHostGetDevicePointer(&on_device, p, 0);
    if (found != cudaSuccess) (void)cudaHostUnregister(p);
    check_cuda(found, "cudaHostGetDevicePointer");
    return on_device;
  }
  static void unmap_host(void* p) { check_cuda(cudaHostUnregister(p), "cudaHostUnregister"); }

  static stream make_stream() {
    check_process();
    stream s = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return s;
  }
  static void destroy(stream s) { check_cuda(cudaStreamDestroy(s), "cudaStreamDestroy"); }
  static void synchronise(stream s) { check_cuda(cudaStreamSynchronize(s), "cudaStreamSynchronize"); }
  static bool idle(stream s) {
    cudaError_t const result = cudaStreamQuery(s);
    if (result == cudaSuccess) return true;
    if (result != cudaErrorNotReady) check_cuda(result, "cudaStreamQuery");
    (void)cudaGetLastError();
    return false;
  }
  static bool capturing(stream s) {
    cudaStreamCaptureStatus now = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamIsCapturing(s, &now), "cudaStreamIsCapturing");
    return now != cudaStreamCaptureStatusNone;
  }
  static void copy(stream s, void* to, void const* from, std::size_t bytes) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s), "cudaMemcpyAsync");
  }
  static void fill(stream s, void* to, int byte, std::size_t bytes) {
    check_cuda(cudaMemsetAsync(to, byte, bytes, s), "cudaMemsetAsync");
  }
  static event make_event() {
    event e = nullptr;
    check_cuda(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return e;
  }
  static void destroy(event e) { check_cuda(cudaEventDestroy(e), "cudaEventDestroy"); }
  static void record(event e, stream s) { check_cuda(cudaEventRecord(e, s), "cudaEventRecord"); }
  static bool passed(event e) {
    cudaError_t const result = cudaEventQuery(e);
    if (result == cudaSuccess) return true;
    if (result != cudaErrorNotReady) check_cuda(result, "cudaEventQuery");
    (void)cudaGetLastError();
    return false;
  }
  static void wait(stream s, event e) { check_cuda(cudaStreamWaitEvent(s, e, 0), "cudaStreamWaitEvent"); }
  static bool waits_for_values() {
    static auto const attribute =
        driver<CUresult (*)(int*, CUdevice_attribute, CUdevice)>("cuDeviceGetAttribute", 2000);
    int can = 0;
    return attribute(&can, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, device()) == CUDA_SUCCESS && can != 0;
  }
  // The second version of these calls: the first needed a parameter of the driver's module.
  static void wait_value(stream s, void* p, std::uint64_t v) {
    static auto const call =
        driver<CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned)>("cuStreamWaitValue64", 11070);
    check_driver(call(s, reinterpret_cast<CUdeviceptr>(p), v, CU_STREAM_WAIT_VALUE_GEQ), "cuStreamWaitValue64");
  }
  static void write_value(stream s, void* p, std::uint64_t v) {
    static auto const call =
        driver<CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned)>("cuStreamWriteValue64", 11070);
    check_driver(call(s, reinterpret_cast<CUdeviceptr>(p), v, CU_STREAM_WRITE_VALUE_DEFAULT), "cuStreamWriteValue64");
  }

  template <kernel_body Body>
  static void prepare() {
    prepare_kernel<Body>();
  }
  template <kernel_body Body>
  static unsigned blocks_at_once(unsigned threads) {
    return most_blocks<Body>(threads);
  }
  template <kernel_body Body>
  static void launch(stream s, unsigned blocks, unsigned threads, Body const& body) {
    launch_kernel(s, blocks, threads, body);
  }

 private:
  // A driver that was initialised before a fork is of no use after it, and does not say so in words.
  static void check_process() {
    static pid_t const first = ::getpid();
    if (first != ::getpid())
      throw error(
          errc::unsupported,
          "this process was forked from one that had used CUDA: fork first, then use it (ringlet::launch does)");
  }
  // The number that a device has in this process, or -1.
  static int number_of(device_id const& other) {
    for (int d = 0, n = devices(); d < n; ++d)
      if (id(d) == other) return d;
    return -1;
  }
  template <class F>
  static F driver(char const* symbol, unsigned version) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult how{};
    check_cuda(cudaGetDriverEntryPointByVersion(symbol, &found, version, cudaEnableDefault, &how), symbol);
    if (how != cudaDriverEntryPointSuccess)
      throw error(errc::unsupported, std::string("the driver has no ") + symbol + ": it is too old");
    return reinterpret_cast<F>(found);
  }
  static void check_driver(CUresult result, char const* what) {
    if (result == CUDA_SUCCESS) return;
    static auto const text = driver<CUresult (*)(CUresult, char const**)>("cuGetErrorString", 6000);
    char const* words = "an unknown error";
    (void)text(result, &words);
    throw error(result == CUDA_ERROR_OUT_OF_MEMORY ? errc::out_of_memory : errc::unsupported,
                std::string(what) + ": " + words);
  }
};

static_assert(device_runtime<cuda_runtime>);

}  // namespace ringlet
