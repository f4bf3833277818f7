// Offers the process's GPUs to the executor: what a step on one of them is trained with.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include "cuda/cuda_blocks.hpp"
#include "cuda/cuda_clock.hpp"
#include "cuda/cuda_contents.hpp"
#include "cuda/cuda_lanes.hpp"
#include "cuda/cuda_random.hpp"
#include "cuda/cuda_result.hpp"
#include "cuda/pinned_spills.hpp"
#include "cuda/torch_blocks.hpp"
#include "device/torch/training_device.hpp"

namespace ebbtide::plugin::cuda {
namespace {

// Without an identifier where the runtime tells none.
GpuIdentity identityOf(c10::DeviceIndex index) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return {index, ""};
  }
  return {index, uuidText(properties.uuid.bytes)};
}

// Leaked, as graphs may end while the process exits.
OfferedDevice openGpu(c10::Device device, const HostSide& host) {
  TorchBlocks* const blocks = TorchBlocks::installed();
  const c10::DeviceIndex index = device.index();
  const c10::cuda::CUDAGuard guard(index);
  if (blocks == nullptr || isCaptured(c10::cuda::getCurrentCUDAStream(index).stream())) {
    return {};
  }
  DeviceHeaps& heaps = blocks->heaps();
  DeviceHeap& heap = heaps.heap(index);
  if (heap.capturing()) return {};
  const auto* const gpu = new TrainingDevice{.device = device,
                                             .blocks = *new CudaBlocks(index, heap),
                                             .contents = *new CudaContents(index),
                                             .random = *new CudaRandom(index),
                                             .clock = *new CudaClock(index),
                                             .lanes = *new CudaLanes(index, heap)};
  heaps.boundAllBut(index);
  auto* const spills = new PinnedSpills(index, heap, host.share_bytes);
  TorchBlocks::refuseBy(host.refuse_block);
  const auto set_budget = [&heap](const std::string& size) {
    heap.budget().setBudget(budgetOf(size, heap.budget()));
  };
  const auto note = host.note_out_of_memory;
  heaps.outOfMemoryObservers().add([note](auto&&...) { note(); });
  const auto most_bytes = [&heap] { return heap.budget().mostBytes(); };
  const auto facts = [&heap] { return heap.budget().facts(); };
  return {gpu, &heap.memory(), spills, set_budget, most_bytes, identityOf(index), facts};
}

}  // namespace
}  // namespace ebbtide::plugin::cuda

// False: the plugin is not there. `budget`: one is the GPUs', so that nothing else is trained on;
// from here on somebody judges it.
extern "C" __attribute__((visibility("default"))) bool ebbtide_cuda_offer(bool budget) {
  using namespace ebbtide::plugin;
  using Offer = void (*)(c10::DeviceType, OpenDevice, bool);
  const auto offer = reinterpret_cast<Offer>(dlsym(RTLD_DEFAULT, "ebbtide_offer_devices"));
  if (offer == nullptr) return false;
  offer(c10::kCUDA, &cuda::openGpu, !budget);
  if (cuda::TorchBlocks* const blocks = cuda::TorchBlocks::installed()) {
    blocks->heaps().letGoOver();
  }
  return true;
}
