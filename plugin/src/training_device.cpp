#include "training_device.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include "cpu_allocator.hpp"
#include "host_clock.hpp"
#include "host_contents.hpp"

namespace ebbtide::plugin {
namespace {

class HostRandom final : public DeviceRandom {
 public:
  std::vector<at::Generator> shared() const override {
    return {at::detail::getDefaultCPUGenerator()};
  }
  at::Generator make() const override { return at::detail::createCPUGenerator(); }
};

class HostBlocks final : public DeviceBlocks {
 public:
  c10::Storage allocate(std::size_t bytes) const override {
    c10::Allocator* allocator = c10::GetAllocator(c10::kCPU);
    return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), bytes, allocator->allocate(bytes), allocator, true));
  }
  bool isOurs(const c10::Storage& storage) const noexcept override { return isOurBlock(storage); }
  unsigned char fillNew(unsigned char pattern) const noexcept override {
    return fillNewBlocks(pattern);
  }
};

}  // namespace

// Leaked: graphs may end while the process exits.
const TrainingDevice& trainingDevice() noexcept {
  static const auto* const host = new TrainingDevice{.device = c10::kCPU,
                                                     .blocks = *new HostBlocks(),
                                                     .contents = *new HostContents(),
                                                     .random = *new HostRandom(),
                                                     .clock = *new HostClock()};
  return *host;
}

}  // namespace ebbtide::plugin
