// TrainingDevice: what the executor asks of the device whose tensors the process trains. One a
// process. Torch-free.
#pragma once

#include "device_contents.hpp"

namespace ebbtide::plugin {

struct TrainingDevice {
  const DeviceContents& contents;
};

const TrainingDevice& trainingDevice() noexcept;

}  // namespace ebbtide::plugin
