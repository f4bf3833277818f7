// What torch 2.15 asks CUDA before it tells a stream's handle (c10/cuda/CUDAStream.cpp). The
// program exports the functions, or loads them first. So libc10_cuda finds them in place of the
// runtime's, which want a driver.
#include <cuda_runtime_api.h>

#define EXPORTED __attribute__((visibility("default")))

extern "C" EXPORTED cudaError_t cudaGetDeviceCount(int* count) {
  *count = 8;
  return cudaSuccess;
}

extern "C" EXPORTED cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return cudaSuccess;
}
