// What the emulated GPU's own tests share.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "ebbtide/allocator/cuda/device.hpp"
#include "ebbtide/allocator/cuda/driver.hpp"

namespace emulated_gpu {

#define ASSERT_CUDA(expression) ASSERT_EQ(expression, cudaSuccess)

// nullptr where the process is not run by the emulated GPU's `run`.
template <typename Function>
Function* ofEmulator(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// As the allocator opens a GPU.
inline ebbtide::allocator::cuda::Device openedDevice() {
  using namespace ebbtide::allocator::cuda;
  static const DriverResult loaded = loadDriver();  // outlives the device
  if (!loaded.problem.empty()) throw std::runtime_error(loaded.problem);
  const DeviceResult opened = openDevice(loaded.driver, 0);
  if (!opened.device) throw std::runtime_error(opened.problem);
  return *opened.device;
}

}  // namespace emulated_gpu
