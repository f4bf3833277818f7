#include "cuda/free_memory_callbacks.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

namespace ebbtide::plugin::cuda {

bool runFreeMemoryCallbacks() {
  bool freed = false;
  for (const auto& name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
    freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
  }
  return freed;
}

}  // namespace ebbtide::plugin::cuda
