// Torch's CUDA allocator over host memory, for a Python process: what torch's own Python shows of
// it can be looked at without a GPU (tests/e2e/test_gpu_snapshot.py).
#include <torch/csrc/profiler/combined_traceback.h>

#include "host_devices.hpp"

namespace {

using namespace ebbtide::plugin::cuda;
using namespace ebbtide::plugin::cuda::test;

CudaAllocator* installed = nullptr;
HostSource* source = nullptr;

std::shared_ptr<c10::GatheredContext> whereWeAre() {
  return torch::CapturedTraceback::gather(/*python=*/true, /*script=*/true, /*cpp=*/false);
}

cudaStream_t streamOf(int number) {
  return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(number) * 0x1000);
}

}  // namespace

#define EBBTIDE_API extern "C" __attribute__((visibility("default")))

EBBTIDE_API void host_gpus_install(std::int64_t budget_bytes) {
  auto owned = std::make_unique<HostSource>();
  source = owned.get();
  installed = new CudaAllocator(std::move(owned),
                                [budget_bytes](const DeviceHeap&) { return budget_bytes; });
  installed->init(2);
  c10::SetAllocator(c10::kCUDA, installed, 255);
  torch_cuda::allocator.store(installed);
}

EBBTIDE_API void host_gpus_record(std::size_t most_entries) {
  installed->recordHistory(true, &whereWeAre, most_entries,
                           c10::CachingDeviceAllocator::RecordContext::ALL, false, {});
}

// nullptr: out of memory.
EBBTIDE_API void* host_gpus_take(int device, std::size_t bytes, int stream) {
  source->device = static_cast<c10::DeviceIndex>(device);
  try {
    return installed->raw_alloc_with_stream(bytes, streamOf(stream));
  } catch (const c10::OutOfMemoryError&) {
    return nullptr;
  }
}

EBBTIDE_API void host_gpus_give(void* block) {
  installed->raw_delete(block);
}

// A kernel that another stream has queued keeps the block.
EBBTIDE_API void host_gpus_give_while_used(void* block, int device, int stream) {
  const c10::DataPtr owner(block, block, installed->raw_deleter(),
                           c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
  ++source->gpus[static_cast<std::size_t>(device)].queued[streamOf(stream)];
  installed->recordStream(owner, c10::cuda::getStreamFromExternal(
                                     streamOf(stream), static_cast<c10::DeviceIndex>(device)));
}
