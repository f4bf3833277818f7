// TrainingDevice: what the executor asks of the device whose tensors the process trains. One a
// process. Torch-free.
#pragma once

#include "device_clock.hpp"
#include "device_contents.hpp"

namespace ebbtide::plugin {

struct TrainingDevice {
  const DeviceContents& contents;
  DeviceClock& clock;
};

const TrainingDevice& trainingDevice() noexcept;

}  // namespace ebbtide::plugin
