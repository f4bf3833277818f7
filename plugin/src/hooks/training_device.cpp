#include "device/torch/training_device.hpp"

#include <ATen/CPUGeneratorImpl.h>

#include <atomic>
#include <mutex>

#include "device/host_clock.hpp"
#include "device/host_contents.hpp"
#include "device/torch/host_lanes.hpp"
#include "execute/live_runs.hpp"
#include "hooks/cpu_allocator.hpp"
#include "runtime/session.hpp"

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
  FillPattern fillNew(FillPattern pattern) const noexcept override {
    return fillNewBlocks(pattern);
  }
  c10::Storage adopt(void* block, std::size_t bytes) const override {
    return adoptBlock(block, bytes);
  }
};

// Leaked, like what follows: graphs may end while the process exits.
const TrainingDevice& host() {
  static const auto* const device = new TrainingDevice{.device = c10::kCPU,
                                                       .blocks = *new HostBlocks(),
                                                       .contents = *new HostContents(),
                                                       .random = *new HostRandom(),
                                                       .clock = *new HostClock(),
                                                       .lanes = *new HostLanes()};
  return *device;
}

std::mutex mutex;  // guards the choice
std::atomic<const TrainingDevice*> chosen{nullptr};
std::atomic<OpenDevice> open_device{nullptr};
std::atomic<c10::DeviceType> offered_type{c10::kCPU};
std::atomic<bool> may_be_host{false};

void noteOutOfMemory() noexcept {
  if (!RunLife::inChild() && !TrialScope::active()) {
    Session::current()->outputs().counters.addOutOfMemory();
    Session::current()->budgets().verdict().noteFailedAllocation(0);
  }
}

}  // namespace

const TrainingDevice& trainingDevice() noexcept {
  const TrainingDevice* const device = chosen.load(std::memory_order_acquire);
  return device != nullptr ? *device : host();
}

bool trainsOn(c10::Device device) noexcept {
  if (open_device.load(std::memory_order_relaxed) == nullptr) return true;
  const TrainingDevice* const here = chosen.load(std::memory_order_acquire);
  if (here != nullptr) return here->has(device);
  return device.type() == offered_type || (device.is_cpu() && may_be_host);
}

bool isSecondDevice(c10::Device device) noexcept {
  const TrainingDevice* const here = chosen.load(std::memory_order_acquire);
  return here != nullptr && !here->device.is_cpu() && device.type() == here->device.type() &&
         !here->has(device);
}

c10::DeviceType trainedType() noexcept {
  const TrainingDevice* const here = chosen.load(std::memory_order_acquire);
  if (here != nullptr) return here->device.type();
  return open_device.load(std::memory_order_relaxed) == nullptr ? c10::kCPU : offered_type.load();
}

bool chooseTrainingDevice(c10::Device device) {
  if (chosen.load(std::memory_order_acquire) != nullptr) return true;
  const std::lock_guard lock(mutex);
  if (chosen.load() != nullptr) return true;
  const OpenDevice open = open_device.load();
  if (open == nullptr || (device.is_cpu() && may_be_host)) {
    chosen.store(&host(), std::memory_order_release);
    return true;
  }
  Session& session = *Session::current();
  const OfferedDevice offered =
      open(device, {host(), session.trained().memory(), session.trained().spills(), &refuseBlock,
                    &noteOutOfMemory, hostShareBytes(session.config().local_world_size)});
  if (offered.device == nullptr) return false;
  if (offered.gpu) session.outputs().metrics.noteGpu(session.guard().hold(), *offered.gpu);
  session.trainOn(*offered.memory, *offered.spills, offered.set_budget, offered.most_bytes,
                  offered.budget_facts);
  if (offered.memory != &session.trained().host()) {
    session.trained().host().setReclaimer(nullptr);
    offered.memory->setReclaimer(&liveRuns());
  }
  chosen.store(offered.device, std::memory_order_release);
  return true;
}

}  // namespace ebbtide::plugin

extern "C" __attribute__((visibility("default"))) void ebbtide_offer_devices(
    c10::DeviceType type, ebbtide::plugin::OpenDevice open, bool or_host) {
  using namespace ebbtide::plugin;
  const std::lock_guard lock(mutex);
  if (chosen.load() != nullptr) return;  // too late: a step has begun
  offered_type = type;
  may_be_host = or_host;
  open_device = open;
}
