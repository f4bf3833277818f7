// libcudart.so.13's functions: devices, errors and memory.
#include <cstdio>
#include <cstring>

#include "api.hpp"
#include "captures.hpp"
#include "events.hpp"
#include "memory.hpp"
#include "settings.hpp"

using namespace emulated_gpu;

namespace {

constexpr int kMultiprocessors = 132;

bool exists(int ordinal) {
  return ordinal >= 0 && ordinal < deviceCount();
}

}  // namespace

// An H100's, as far as anybody asks.
int emulated_gpu::attributeOf(int which) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      return settings().virtual_memory ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
      return 1;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      return 9;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      return kMultiprocessors;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return 232448;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      return 233472;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
      return 65536;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      return 2048;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      return 1500000;  // kHz
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      return 50 << 20;
    default:
      return 0;
  }
}

// --- errors

RUNTIME cudaGetLastError() {
  const Lock lock(device_lock);
  const cudaError_t error = lastError();
  lastError() = cudaSuccess;
  const CUresult sticky = stickyError();
  return sticky == CUDA_SUCCESS ? error : static_cast<cudaError_t>(sticky);
}
RUNTIME cudaPeekAtLastError() {
  const Lock lock(device_lock);
  const CUresult sticky = stickyError();
  return sticky == CUDA_SUCCESS ? lastError() : static_cast<cudaError_t>(sticky);
}
API const char* CUDARTAPI cudaGetErrorName(cudaError_t error) {
  thread_local char text[48];
  std::snprintf(text, sizeof text, "emulated CUDA error %d", static_cast<int>(error));
  return text;
}
API const char* CUDARTAPI cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorLaunchOutOfResources:
      return "too many resources requested for launch";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return cudaGetErrorName(error);
  }
}

// --- devices

RUNTIME cudaDriverGetVersion(int* version) {
  return answer(cuDriverGetVersion(version));
}
RUNTIME cudaRuntimeGetVersion(int* version) {
  return answer(cuDriverGetVersion(version));
}
RUNTIME cudaGetDeviceCount(int* count) {
  *count = deviceCount();
  return *count > 0 ? cudaSuccess : answer(cudaErrorNoDevice);
}
RUNTIME cudaGetDevice(int* ordinal) {
  const auto& pushed = pushedContexts();
  const bool by_context = !pushed.empty() && pushed.back() != nullptr;
  *ordinal = by_context ? pushed.back()->device->ordinal : runtimeDevice();
  return cudaSuccess;
}
RUNTIME cudaSetDevice(int ordinal) {
  const Lock lock(device_lock);
  if (!exists(ordinal)) return answer(cudaErrorInvalidDevice);
  runtimeDevice() = ordinal;
  makeActive(device(ordinal));
  return answer(cudaSuccess);
}
RUNTIME cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int ordinal) {
  if (!exists(ordinal)) return answer(cudaErrorInvalidDevice);
  *value = attributeOf(which);
  return cudaSuccess;
}
RUNTIME cudaGetDeviceProperties(cudaDeviceProp* properties, int ordinal) {
  const Lock lock(device_lock);
  if (!exists(ordinal)) return answer(cudaErrorInvalidDevice);
  cudaDeviceProp& p = *properties;
  std::memset(&p, 0, sizeof p);
  std::snprintf(p.name, sizeof p.name, "Emulated GPU");
  p.totalGlobalMem = device(ordinal).total_bytes;
  p.major = attributeOf(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  p.multiProcessorCount = kMultiprocessors;
  p.warpSize = 32;
  p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.sharedMemPerBlock = 49152;
  p.sharedMemPerBlockOptin = 232448;
  p.sharedMemPerMultiprocessor = 233472;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.l2CacheSize = 50 << 20;
  p.textureAlignment = 512;
  p.concurrentKernels = p.unifiedAddressing = p.canMapHostMemory = 1;
  p.memoryBusWidth = 5120;
  for (int i = 0; i < 15; ++i) p.uuid.bytes[i] = static_cast<char>(i + 1);
  p.uuid.bytes[15] = static_cast<char>(ordinal);
  p.pciBusID = ordinal + 1;
  return cudaSuccess;
}
RUNTIME cudaDeviceGetPCIBusId(char* text, int size, int ordinal) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", ordinal + 1);
  return cudaSuccess;
}
RUNTIME cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
RUNTIME cudaDeviceCanAccessPeer(int* can, int from, int to) {
  *can = from != to ? 1 : 0;
  return cudaSuccess;
}
RUNTIME cudaDeviceEnablePeerAccess(int, unsigned) {
  return answer(cudaSuccess);
}
RUNTIME cudaDeviceSynchronize() {
  const Lock lock(device_lock);
  return answer(synchronizeDevice(currentDevice()));
}
RUNTIME cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return answer(cuMemGetInfo(free, total));
}

// --- memory

RUNTIME cudaMalloc(void** begin, std::size_t bytes) {
  const Lock lock(device_lock);
  return answer(allocateBlock(begin, bytes, &currentDevice()));
}
RUNTIME cudaMallocAsync(void** begin, std::size_t bytes, cudaStream_t) {
  const Lock lock(device_lock);
  return answer(allocateBlock(begin, bytes, &currentDevice()));
}
RUNTIME cudaFree(void* begin) {
  const Lock lock(device_lock);
  currentDevice();  // cudaFree(nullptr) is how programs make a context
  return answer(freeBlock(begin));
}
RUNTIME cudaFreeAsync(void* begin, cudaStream_t stream) {
  const Lock lock(device_lock);
  return answer(freeInOrder(begin, stream));
}
RUNTIME cudaHostAlloc(void** begin, std::size_t bytes, unsigned) {
  const Lock lock(device_lock);
  currentDevice();
  return answer(allocateBlock(begin, bytes, nullptr));
}
RUNTIME cudaMallocHost(void** begin, std::size_t bytes) {
  return cudaHostAlloc(begin, bytes, 0);
}
RUNTIME cudaMallocManaged(void** begin, std::size_t bytes, unsigned) {
  return cudaHostAlloc(begin, bytes, 0);
}
RUNTIME cudaFreeHost(void* begin) {
  const Lock lock(device_lock);
  return answer(freeBlock(begin));
}
RUNTIME cudaHostRegister(void* begin, std::size_t bytes, unsigned) {
  const Lock lock(device_lock);
  return answer(pinRange(begin, bytes));
}
RUNTIME cudaHostUnregister(void* begin) {
  const Lock lock(device_lock);
  return answer(unpinRange(begin));
}
RUNTIME cudaHostGetDevicePointer(void** address, void* begin, unsigned) {
  *address = begin;
  return cudaSuccess;
}
RUNTIME cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const Lock lock(device_lock);
  *attributes = {};
  void* const plain = const_cast<void*>(address);
  const Device* const of = deviceOf(address);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = of == nullptr ? -2 : of->ordinal;
  if (of != nullptr) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = plain;
    return answer(cudaSuccess);
  }
  attributes->hostPointer = plain;
  if (isPinned(address)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = runtimeDevice();
    attributes->devicePointer = plain;
  }
  return answer(cudaSuccess);
}
RUNTIME cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                        cudaStream_t stream) {
  const Lock lock(device_lock);
  return answer(copyBytes(to, from, bytes, stream));
}
RUNTIME cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                            cudaStream_t stream) {
  const Lock lock(device_lock);
  return answer(copyBytes(to, from, bytes, stream));
}
RUNTIME cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                          std::size_t bytes, std::size_t rows, cudaMemcpyKind,
                          cudaStream_t stream) {
  const Lock lock(device_lock);
  return answer(copyRows(to, to_pitch, from, from_pitch, bytes, rows, stream));
}
RUNTIME cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  const Lock lock(device_lock);
  if (const CUresult error = unsafeCall("cudaMemcpy")) return answer(error);
  if (const CUresult error = copyBytes(to, from, bytes, nullptr)) return answer(error);
  return answer(synchronizeStream(nullptr));
}
RUNTIME cudaMemsetAsync(void* begin, int value, std::size_t bytes, cudaStream_t stream) {
  const Lock lock(device_lock);
  return answer(fillBytes(begin, value, bytes, stream));
}
RUNTIME cudaMemset(void* begin, int value, std::size_t bytes) {
  return cudaMemsetAsync(begin, value, bytes, nullptr);
}
