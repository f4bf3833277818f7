// Host code in place of CUDA's kernels, by kind.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace emulated_gpu {

// Any op: sizes by its Meta kernel, numbers by its CPU kernel.
void runOnStream(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);

// It only looks at tensors, or allocates them.
bool looksOnly(const c10::OperatorHandle& op);
// For the order checker, where it is on.
void watchHostAccesses();

// Registers functions for the dispatch key CUDA, over those that are there.
class Registry {
 public:
  template <typename Function>
  void add(const char* name, Function* function) {
    addKernel({name, ""}, c10::KernelFunction::makeFromUnboxedRuntimeFunction(function));
  }
  void addKernel(const c10::OperatorName& name, c10::KernelFunction kernel);

 private:
  std::vector<c10::RegistrationHandleRAII> handles_;
};

// What no CPU kernel stands for, or what draws.
void addCopiesAndDropout(Registry& registry);
void addAttention(Registry& registry);
void addCudnn(Registry& registry);
void addRecurrent(Registry& registry);

}  // namespace emulated_gpu
