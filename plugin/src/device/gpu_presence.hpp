// Is there a GPU for this process? Torch-free; CUDA is not started, so that the process may fork
// after it.
#pragma once

#include <string>

namespace ebbtide::plugin {

// By NVIDIA's driver, its devices in `devices` and CUDA_VISIBLE_DEVICES. True does not promise that
// CUDA starts.
bool gpuVisible(const std::string& devices = "/dev", const char* driver = "libcuda.so.1");

}  // namespace ebbtide::plugin
