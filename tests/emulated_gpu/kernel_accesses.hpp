// What our kernels read and write, by their arguments. Nobody else can tell.
#pragma once

#include <string>
#include <vector>

#include "order.hpp"

namespace emulated_gpu {

// Of the kernels in tests/gpu/patterns.cu and plugin/src/cuda/contents_kernels.cu; else none.
std::vector<Access> kernelAccesses(const std::string& name, void** arguments);

}  // namespace emulated_gpu
