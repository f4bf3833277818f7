#include "hooks/cuda_side.hpp"

#include <dlfcn.h>

#include "base/own_folder.hpp"
#include "runtime/output/run_lines.hpp"

namespace ebbtide::plugin {
namespace {

void* library = nullptr;

void warn(const char* text) {
  if (const RunLines* const lines = RunLines::current()) lines->warn(text);
}

}  // namespace

CudaSideResult installCudaSide(const std::string& budget) {
  void* const torch_cuda = dlopen("libc10_cuda.so", RTLD_NOLOAD | RTLD_LAZY);
  if (torch_cuda == nullptr) return {};
  dlclose(torch_cuda);  // torch keeps it
  if (library == nullptr) {
    const std::string path = ownFolder() + "/libebbtide_torch_cuda.so";
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return {};  // built without CUDA
  using Install = const char* (*)(const char*, void (*)(const char*));
  const auto install = reinterpret_cast<Install>(dlsym(library, "ebbtide_cuda_install"));
  const char* refused =
      install == nullptr ? "libebbtide_torch_cuda.so is damaged" : install(budget.c_str(), &warn);
  if (refused == nullptr) return {CudaSide::kInstalled};
  return {CudaSide::kRefused, refused};
}

bool offerGpus(bool budget) {
  if (library == nullptr) return false;
  using Offer = bool (*)(bool);
  const auto offer = reinterpret_cast<Offer>(dlsym(library, "ebbtide_cuda_offer"));
  return offer != nullptr && offer(budget);
}

std::optional<GpuOverrun> gpuOverrun() {
  if (library == nullptr) return std::nullopt;
  using Overrun = bool (*)(std::int64_t*, std::int64_t*);
  const auto overrun = reinterpret_cast<Overrun>(dlsym(library, "ebbtide_cuda_overrun"));
  GpuOverrun found;
  const bool exceeded = overrun != nullptr && overrun(&found.budget_bytes, &found.peak_bytes);
  return exceeded ? std::optional(found) : std::nullopt;
}

void measureGpuMargins() {
  if (library == nullptr) return;
  using Measure = void (*)();
  if (auto measure = reinterpret_cast<Measure>(dlsym(library, "ebbtide_cuda_measure_margins"))) {
    measure();
  }
}

}  // namespace ebbtide::plugin
