// TrainingDevice: what the executor asks of the device whose tensors the process trains. One a
// process. Includes torch.
#pragma once

#include <c10/core/Device.h>

#include "device_blocks.hpp"
#include "device_clock.hpp"
#include "device_contents.hpp"
#include "device_random.hpp"

namespace ebbtide::plugin {

struct TrainingDevice {
  c10::Device device;
  const DeviceBlocks& blocks;
  const DeviceContents& contents;
  const DeviceRandom& random;
  DeviceClock& clock;

  bool has(c10::Device other) const noexcept {
    return other.type() == device.type() && (device.is_cpu() || other.index() == device.index());
  }
};

const TrainingDevice& trainingDevice() noexcept;

}  // namespace ebbtide::plugin
