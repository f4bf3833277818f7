// An allocator as torch.cuda.memory.CUDAPluggableAllocator loads it: what a memory pool of its own
// asks.
#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <atomic>

#define SHOWN extern "C" __attribute__((visibility("default")))

namespace {
std::atomic<long> live_blocks{0}, made_blocks{0};
}

SHOWN void* pluggable_alloc(ssize_t bytes, int, cudaStream_t) {
  void* block = nullptr;
  if (cudaMalloc(&block, static_cast<std::size_t>(bytes)) != cudaSuccess) return nullptr;
  ++live_blocks;
  ++made_blocks;
  return block;
}
SHOWN void pluggable_free(void* block, ssize_t, int, cudaStream_t) {
  --live_blocks;
  (void)cudaFree(block);
}
SHOWN long pluggable_live() {
  return live_blocks;
}
SHOWN long pluggable_made() {
  return made_blocks;
}
