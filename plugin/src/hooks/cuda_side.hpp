// CudaSide: the library for torch's CUDA memory, where this process has CUDA. Includes neither
// torch nor CUDA: the plugin loads without both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ebbtide::plugin {

enum class CudaSide { kAbsent, kInstalled, kRefused };

struct CudaSideResult {
  CudaSide side = CudaSide::kAbsent;
  std::string problem = {};  // of kRefused: one sentence
};

// Takes the place of torch's CUDA allocator if this process's torch has one and our library lies
// beside this one. `budget` as in EBBTIDE_BUDGET, of each GPU; empty for none.
CudaSideResult installCudaSide(const std::string& budget);

// After that: training on a GPU is recorded, and under a budget its values are dropped, spilled and
// computed again from the first step on. `budget`: one is the GPUs'; training on the CPU is left
// alone then. False where the side was built without the kernels for it, or is not installed.
bool offerGpus(bool budget);

// Of the GPU whose budget was exceeded, of several the one that was used most: what others use of
// it in both figures. Nothing: none was.
struct GpuOverrun {
  std::int64_t budget_bytes = 0, peak_bytes = 0;
};
std::optional<GpuOverrun> gpuOverrun();

// For the start of a step: what others hold of the GPUs counts as of now. Nothing where the side is
// not installed.
void measureGpuMargins();

}  // namespace ebbtide::plugin
