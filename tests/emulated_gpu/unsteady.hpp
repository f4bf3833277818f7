// EMULATED_GPU_UNSTEADY: what differs from run to run on a device differs here, so that
// verification has something to find. Without it every kernel repeats its bits.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "device_tensor.hpp"

namespace emulated_gpu {

bool unsteady();

// Whether the op's kernel adds in no order, as use_deterministic_algorithms names it, and nobody
// asked for the other one.
bool addsInNoOrder(const std::string& op);
// Whether it is a matrix product, whose bits depend on its workspace and on 16-byte alignment.
bool isProduct(const std::string& op);
// The number of a launch, or of what else the bits depend on, decides a low bit of the first
// number.
void disturb(const at::Tensor& result, std::uint64_t by);
std::uint64_t nextLaunch();

// The workspace of this thread's handle and the current stream, as cuBLAS has it of torch's
// allocator.
DeviceTensor productWorkspace();
// What a convolution gets of torch's allocator while it runs: less than it wants where memory is
// out.
DeviceTensor convolutionWorkspace(const at::Tensor& output, bool benchmark);

}  // namespace emulated_gpu
