#include "cuda/cuda_contents.hpp"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>

#include "cuda/cuda_result.hpp"

namespace ebbtide::plugin::cuda {
namespace {

// Of contents that nobody knows.
Checksum likeNoOther() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return {.low = ++last, .high = ~std::uint64_t{0}};
}

}  // namespace

CudaContents::CudaContents(c10::DeviceIndex device) : device_(device) {
  const c10::cuda::CUDAGuard guard(device_);
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  C10_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&on_device_), sizeof(Sums)));
  C10_CUDA_CHECK(cudaMallocHost(reinterpret_cast<void**>(&on_host_), sizeof(Sums)));
}

CudaContents::~CudaContents() {
  C10_CUDA_CHECK_WARN(cudaFree(on_device_));
  C10_CUDA_CHECK_WARN(cudaFreeHost(on_host_));
}

std::optional<CudaContents::Sums> CudaContents::ask(const Launch& launch) const noexcept try {
  const std::lock_guard lock(mutex_);
  const c10::cuda::CUDAGuard guard(device_);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream(device_).stream();
  if (isCaptured(stream)) return std::nullopt;
  // Another thread may be capturing: to it this is none of its graph's.
  const c10::cuda::CUDAStreamCaptureModeGuard relaxed(cudaStreamCaptureModeRelaxed);
  const bool known = succeeded(cudaMemsetAsync(on_device_, 0, sizeof(Sums), stream)) &&
                     succeeded(launch(on_device_, stream)) &&
                     succeeded(cudaMemcpyAsync(on_host_, on_device_, sizeof(Sums),
                                               cudaMemcpyDeviceToHost, stream)) &&
                     succeeded(cudaStreamSynchronize(stream));
  if (!known) return std::nullopt;
  return *on_host_;
} catch (...) {
  return std::nullopt;
}

bool CudaContents::equalWhereWritten(const void* original, const FilledRun& first,
                                     const FilledRun& second, std::int64_t bytes) const noexcept {
  const bool all = first.data == second.data && first.pattern == second.pattern;
  const auto sums = ask([&](Word* differences, cudaStream_t stream) {
    const auto size = static_cast<Word>(bytes);
    if (all) return addDifferences(original, first.data, size, differences, stream);
    return addWrittenDifferences(original, {first.data, first.pattern},
                                 {second.data, second.pattern}, size, differences, stream);
  });
  return sums && (*sums)[0] == 0;
}

Checksum CudaContents::checksum(const void* data, std::int64_t bytes) const noexcept {
  const auto sums = ask([=](Word* found, cudaStream_t stream) {
    return addSums(data, static_cast<Word>(bytes), found, stream);
  });
  if (!sums) return likeNoOther();
  // Zeros at the end are part of it: the size goes to both.
  const auto size = static_cast<std::uint64_t>(bytes) * 0x9e3779b97f4a7c15ULL;
  return {.low = (*sums)[0] + size, .high = (*sums)[1] ^ size};
}

Fingerprint CudaContents::fingerprint(const void* data, std::int64_t bytes,
                                      Fingerprint::Extent extent) const noexcept {
  return {checksum(data, bytes), extent};
}

void CudaContents::copy(void* to, const void* from, std::int64_t bytes) const {
  const c10::cuda::CUDAGuard guard(device_);
  C10_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes),
                                 cudaMemcpyDeviceToDevice,
                                 c10::cuda::getCurrentCUDAStream(device_).stream()));
}

}  // namespace ebbtide::plugin::cuda
