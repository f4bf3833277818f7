// CudaContents: DeviceContents of one GPU. Each question is a kernel on the thread's stream and
// waits for it. Where the stream is being captured into a graph nothing can be asked: then, too,
// nothing equals anything.
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>

#include <array>
#include <functional>
#include <mutex>
#include <optional>

#include "cuda/contents_kernels.h"
#include "device/device_contents.hpp"

namespace ebbtide::plugin::cuda {

class CudaContents final : public DeviceContents {
 public:
  explicit CudaContents(c10::DeviceIndex device);  // throws c10::Error
  ~CudaContents() override;

  bool onHost() const noexcept override { return false; }
  bool equalWhereWritten(const void* original, const FilledRun& first, const FilledRun& second,
                         std::int64_t bytes) const noexcept override;
  // Of all bytes, a sample too: to begin a kernel and wait for it takes about as long, and what
  // kernels add up in no order (atomics) may differ in few places.
  Fingerprint fingerprint(const void* data, std::int64_t bytes,
                          Fingerprint::Extent extent) const noexcept override;
  Checksum checksum(const void* data, std::int64_t bytes) const noexcept override;
  void copy(void* to, const void* from, std::int64_t bytes) const override;

 private:
  using Sums = std::array<Word, 2>;
  using Launch = std::function<cudaError_t(Word* sums, cudaStream_t stream)>;
  std::optional<Sums> ask(const Launch& launch) const noexcept;

  const c10::DeviceIndex device_;
  mutable std::mutex mutex_;   // one question at a time: they share what follows
  Word* on_device_ = nullptr;  // two words
  Sums* on_host_ = nullptr;    // pinned
};

}  // namespace ebbtide::plugin::cuda
