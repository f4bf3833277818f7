// Kernels that write and check patterns: two blocks that overlap spoil each other's.
// C++17, and no header of ours or of torch's: nvcc compiles this file alone.
#include "patterns.h"

namespace {

__device__ unsigned word(unsigned long long seed, unsigned long long index) {
  unsigned long long x = seed * 0x9e3779b97f4a7c15ULL + index;
  x ^= x >> 31;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 29;
  return static_cast<unsigned>(x);
}

__global__ void write(unsigned* words, unsigned long long count, unsigned long long seed) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i =
           blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
       i < count; i += step) {
    words[i] = word(seed, i);
  }
}

__global__ void check(const unsigned* words, unsigned long long count, unsigned long long seed,
                      unsigned long long* wrong) {
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  unsigned long long found = 0;
  for (unsigned long long i =
           blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
       i < count; i += step) {
    if (words[i] != word(seed, i)) ++found;
  }
  if (found > 0) atomicAdd(wrong, found);
}

__global__ void spin(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

constexpr int kThreads = 256;

int blocksFor(unsigned long long words) {
  const unsigned long long blocks = (words + kThreads - 1) / kThreads;
  return static_cast<int>(blocks < 1024 ? (blocks > 0 ? blocks : 1) : 1024);
}

}  // namespace

cudaError_t writePattern(void* block, unsigned long long bytes, unsigned long long seed,
                         cudaStream_t stream) {
  const unsigned long long words = bytes / 4;
  write<<<blocksFor(words), kThreads, 0, stream>>>(static_cast<unsigned*>(block), words, seed);
  return cudaGetLastError();
}

cudaError_t checkPattern(const void* block, unsigned long long bytes, unsigned long long seed,
                         unsigned long long* wrong, cudaStream_t stream) {
  const unsigned long long words = bytes / 4;
  check<<<blocksFor(words), kThreads, 0, stream>>>(static_cast<const unsigned*>(block), words, seed,
                                                   wrong);
  return cudaGetLastError();
}

cudaError_t spinFor(long long cycles, cudaStream_t stream) {
  spin<<<1, 1, 0, stream>>>(cycles);
  return cudaGetLastError();
}
