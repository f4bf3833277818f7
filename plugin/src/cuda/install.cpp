// Entry of the CUDA library: puts our allocator in the place of torch's. Called by the plugin's
// torch library before CUDA starts.
#include <c10/cuda/CUDACachingAllocator.h>

#include <cctype>
#include <cstdlib>
#include <string>

#include "cuda/cuda_allocator.hpp"
#include "cuda/driver_device_source.hpp"

namespace {

using namespace ebbtide::plugin::cuda;

// Stays until the process ends: tensors are freed by static destructors, too.
CudaAllocator* ours = nullptr;

// As torch's NCCL reads its switches.
bool isOn(const char* value) {
  if (value == nullptr) return false;
  std::string text = value;
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text == "1" || text == "y" || text == "yes" || text == "t" || text == "true";
}

std::string install(const std::string& budget, void (*warn)(const char*)) {
  if (ours != nullptr) return "";
  if (std::getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) {
    return "PYTORCH_NO_CUDA_MEMORY_CACHING asks for memory straight from CUDA, which has no "
           "budget; "
           "unset it, or EBBTIDE_*";
  }
  for (const char* const hook : {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
                                 "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"}) {  // its old name
    if (!isOn(std::getenv(hook))) continue;
    return std::string(hook) +
           " lets NCCL keep addresses whose pages may change; unset it, or EBBTIDE_*";
  }
  torch_cuda::CUDAAllocator* const before = torch_cuda::allocator.load();
  if (before != nullptr && before->initialized()) {
    return "CUDA was in use before Ebbtide was started: its memory cannot change hands";
  }
  if (before != nullptr && before->name() == "cudaMallocAsync") {
    return "PYTORCH_ALLOC_CONF asks for backend:cudaMallocAsync, whose memory has no budget; take "
           "it "
           "out, or unset EBBTIDE_*";
  }
  auto* const made = new CudaAllocator(
      std::make_unique<DriverDeviceSource>(),
      [budget](const DeviceHeap& heap) { return budgetOf(budget, heap.budget()); },
      [warn](const std::string& text) { warn(text.c_str()); });
  // The highest priority: a lower one than torch's would be ignored in silence.
  c10::SetAllocator(c10::kCUDA, made, 255);
  if (c10::GetAllocator(c10::kCUDA) != made) {
    delete made;
    return "another CUDA allocator is registered with torch and cannot be replaced";
  }
  torch_cuda::allocator.store(made);
  ours = made;
  return "";
}

}  // namespace

#define EBBTIDE_API extern "C" __attribute__((visibility("default")))

// `budget` as in EBBTIDE_BUDGET, of each device; empty for none. nullptr on success, else one
// sentence that lives until the next call. `warn` is told what is to be said, a line each.
EBBTIDE_API const char* ebbtide_cuda_install(const char* budget, void (*warn)(const char*)) {
  static std::string message;
  try {
    message = install(budget, warn);
  } catch (const std::exception& error) {
    message = error.what();
  }
  return message.empty() ? nullptr : message.c_str();
}

// For the start of a step: measures again what others hold of the devices in use.
EBBTIDE_API void ebbtide_cuda_measure_margins() {
  try {
    if (ours != nullptr) ours->heaps().measureMargins();
  } catch (const std::exception&) {
    // The margins stay as they were.
  }
}

// At exit. False: no budget was exceeded. The figures have what others use of the device.
EBBTIDE_API bool ebbtide_cuda_overrun(std::int64_t* budget_bytes, std::int64_t* peak_bytes) {
  const auto most = ours != nullptr ? ours->heaps().mostExceeded() : std::nullopt;
  if (!most) return false;
  *budget_bytes = most->budget_bytes;
  *peak_bytes = most->used_peak_bytes;
  return true;
}
