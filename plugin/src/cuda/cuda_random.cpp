#include "cuda/cuda_random.hpp"

#include <ATen/Context.h>

namespace ebbtide::plugin::cuda {

std::vector<at::Generator> CudaRandom::shared() const {
  at::Context& context = at::globalContext();
  return {context.defaultGenerator(device_), context.defaultGenerator(c10::Device(c10::kCPU))};
}

at::Generator CudaRandom::make() const {
  return at::globalContext()
      .getAcceleratorHooksInterface(c10::kCUDA)
      .getNewGenerator(device_.index());
}

}  // namespace ebbtide::plugin::cuda
