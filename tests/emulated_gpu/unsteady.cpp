#include "unsteady.hpp"

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>

namespace emulated_gpu {

bool unsteady() {
  static const char* const asked = std::getenv("EMULATED_GPU_UNSTEADY");
  return asked != nullptr && std::atoi(asked) != 0;
}

bool addsInNoOrder(const std::string& op) {
  static const std::set<std::string> names = {
      "aten::scatter_add",
      "aten::scatter_add_",
      "aten::scatter_add.out",
      "aten::index_add",
      "aten::index_add_",
      "aten::index_add.out",
      "aten::_index_put_impl_",
      "aten::index_put_",
      "aten::put_",
      "aten::cumsum",
      "aten::cumsum_",
      "aten::cumsum.out",
      "aten::bincount",
      "aten::histc",
      "aten::embedding_dense_backward",
      "aten::_embedding_bag_dense_backward",
      "aten::grid_sampler_2d_backward",
      "aten::grid_sampler_3d_backward",
      "aten::upsample_bilinear2d_backward",
      "aten::upsample_bicubic2d_backward",
      "aten::upsample_linear1d_backward",
      "aten::upsample_nearest2d_backward",
      "aten::upsample_trilinear3d_backward",
      "aten::_adaptive_avg_pool2d_backward",
      "aten::adaptive_max_pool2d_backward",
      "aten::max_pool2d_with_indices_backward",
      "aten::avg_pool3d_backward",
      "aten::reflection_pad1d_backward",
      "aten::reflection_pad2d_backward",
      "aten::replication_pad2d_backward",
      "aten::scatter_reduce.two",
      "aten::_scaled_dot_product_flash_attention_backward",
      "aten::_scaled_dot_product_efficient_attention_backward",
  };
  if (!unsteady() || !names.contains(op)) return false;
  const auto& context = at::globalContext();
  return !context.deterministicAlgorithms() || context.deterministicAlgorithmsWarnOnly();
}

bool isProduct(const std::string& op) {
  static const std::set<std::string> names = {
      "aten::mm",        "aten::mm.out",           "aten::addmm",
      "aten::addmm.out", "aten::addmm_",           "aten::bmm",
      "aten::bmm.out",   "aten::baddbmm",          "aten::baddbmm.out",
      "aten::baddbmm_",  "aten::_addmm_activation"};
  return names.contains(op);
}

void disturb(const at::Tensor& result, std::uint64_t by) {
  const bool number = result.defined() && result.is_floating_point() && result.numel() > 0;
  if (!number || by % 2 == 0) return;
  auto* const first = static_cast<unsigned char*>(result.data_ptr());
  first[0] ^= 1;  // the lowest byte: hosts and GPUs are little-endian
}

std::uint64_t nextLaunch() {
  static std::atomic<std::uint64_t> launches{0};
  return ++launches;
}

DeviceTensor productWorkspace() {
  // Each thread has a handle of its own, as torch's pool gives them.
  static std::atomic<std::uintptr_t> last{0};
  thread_local const std::uintptr_t handle = ++last;
  const std::size_t bytes = at::cuda::getChosenWorkspaceSize();
  auto& workspaces = at::cuda::cublas_handle_stream_to_workspace();
  const auto key =
      std::make_tuple(reinterpret_cast<void*>(handle), static_cast<void*>(currentStream()));
  const std::lock_guard lock(workspaces.mutex);
  auto& block = workspaces.map[key];
  if (!block) block = c10::cuda::CUDACachingAllocator::get()->allocate(bytes);
  return DeviceTensor::ofBytes(block.get(), bytes);
}

DeviceTensor convolutionWorkspace(const at::Tensor& output, bool benchmark) {
  constexpr std::size_t kMost = std::size_t{32} << 20;
  std::size_t wanted = std::clamp<std::size_t>(4 * output.nbytes(), 4096, kMost);
  if (benchmark) {  // the quickest plan of those that fit in what is free
    std::size_t largest = 0;
    c10::cuda::CUDACachingAllocator::cacheInfo(c10::cuda::current_device(), &largest);
    wanted = std::min(wanted, largest);
  }
  try {
    const auto block = c10::cuda::CUDACachingAllocator::get()->allocate(wanted);
    return DeviceTensor::ofBytes(block.get(), wanted);
  } catch (const c10::OutOfMemoryError&) {
    return {};  // the next plan, which needs none
  }
}

}  // namespace emulated_gpu
