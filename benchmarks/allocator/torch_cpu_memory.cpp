#include "torch_cpu_memory.hpp"

#include <c10/core/CPUAllocator.h>

namespace ebbtide::benchmarks {
namespace {

c10::Allocator* const torch_cpu = c10::GetCPUAllocator();
const c10::DeleterFnPtr torch_cpu_free = torch_cpu->raw_deleter();

}  // namespace

void* torchCpuAllocate(allocator::Bytes bytes) {
  return torch_cpu->allocate(static_cast<std::size_t>(bytes)).release_context();
}

void torchCpuFree(void* block) {
  torch_cpu_free(block);
}

}  // namespace ebbtide::benchmarks
