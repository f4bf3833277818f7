// Boundary to c10: PyTorch's own CPU allocator.
#pragma once

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::benchmarks {

void* torchCpuAllocate(allocator::Bytes bytes);
void torchCpuFree(void* block);

}  // namespace ebbtide::benchmarks
