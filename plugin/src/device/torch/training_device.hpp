// TrainingDevice: what the executor asks of the device whose tensors the process trains: the CPU,
// unless a library offers devices of another type before the first step. Then it is the first of
// them whose tensors are trained, and steps on other tensors are left as PyTorch runs them. Where
// no budget is the devices', the CPU is one of those that may come first.
//
// hooks/training_device.cpp defines it. The choice needs the session; the CPU's blocks need torch's
// allocator.
//
// One a process. Chosen by the thread that begins the first step; the same ever after. Includes
// torch.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "device/device_clock.hpp"
#include "device/device_contents.hpp"
#include "device/gpu_identity.hpp"
#include "device/spill_target.hpp"
#include "device/torch/device_blocks.hpp"
#include "device/torch/device_lanes.hpp"
#include "device/torch/device_random.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/scheduler/budget_form.hpp"

namespace ebbtide::plugin {

// All parts live as long as the process.
struct TrainingDevice {
  c10::Device device;
  const DeviceBlocks& blocks;
  const DeviceContents& contents;
  const DeviceRandom& random;
  DeviceClock& clock;
  const DeviceLanes& lanes;

  bool has(c10::Device other) const noexcept {
    return other.type() == device.type() && (device.is_cpu() || other.index() == device.index());
  }
};

// Before a step has begun the CPU.
const TrainingDevice& trainingDevice() noexcept;

struct OfferedDevice {
  const TrainingDevice* device = nullptr;
  allocator::DeviceMemory* memory = nullptr;  // that the budget bounds
  SpillTarget* spills = nullptr;
  // Another budget from now on, as it was written, "" for none; nullptr: that of `memory`.
  std::function<void(const std::string& size)> set_budget = nullptr;
  std::function<std::int64_t()> most_bytes = nullptr;  // that the device has; nullptr: not known
  std::optional<GpuIdentity> gpu = std::nullopt;
  // Of its memory, what a budget may be of; nullptr: not known.
  std::function<scheduler::BudgetFacts()> budget_facts = nullptr;
};
// What a device is built on.
struct HostSide {
  const TrainingDevice& device;
  allocator::DeviceMemory& memory;
  SpillTarget& spills;
  // For the device's allocator, before it gives a block to torch: throws c10::OutOfMemoryError
  // where an op of a step asks and the budget is impossible.
  void (*refuse_block)();
  void (*note_out_of_memory)() noexcept;  // for the same: an error that it gives torch
  std::int64_t share_bytes;               // of the host's memory, that this rank's values may take
};
// Called once, for the first device that is trained on; throws where it cannot be. Of no device:
// it cannot be now, and is called again.
using OpenDevice = OfferedDevice (*)(c10::Device device, const HostSide& host);

// Is a tensor on this device one to train, as far as is known?
bool trainsOn(c10::Device device) noexcept;
// Another device of the type that is trained on: whose values depend on both is not followed.
bool isSecondDevice(c10::Device device) noexcept;
inline constexpr const char* kTwoDevices = "the process trains on more than one GPU";
// Of the devices that are trained on, or will be.
c10::DeviceType trainedType() noexcept;
// A tensor on this device is trained: a step begins. False: not now (a graph is captured).
bool chooseTrainingDevice(c10::Device device);

}  // namespace ebbtide::plugin

// Found by name by the library that offers devices of a type; before the first step. `or_host`: the
// CPU is trained on, if its tensors come first.
extern "C" void ebbtide_offer_devices(c10::DeviceType type, ebbtide::plugin::OpenDevice open,
                                      bool or_host);
