// Libraries register kernels; host code stands for some of them. Call these under the lock.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "device.hpp"

namespace emulated_gpu {

using RunKernel = void (*)(dim3 grid, dim3 block, void** arguments);

// nvcc's stub `function` launches the kernel of this mangled name.
void registerKernel(const void* function, const char* mangled);
// What runs for kernels of this name, without namespaces; sizes are the arguments'.
void registerHostKernel(const char* name, std::vector<std::size_t> sizes, RunKernel run);
CUresult launchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                      CUstream stream);

}  // namespace emulated_gpu
