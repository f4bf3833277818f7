// The library that puts host code in place of torch's CUDA kernels, loaded when the first context
// comes to be, into a process that has torch.
#pragma once

namespace emulated_gpu {

void installOperators();

}  // namespace emulated_gpu
