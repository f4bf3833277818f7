// DeviceRandom: the generators that ops on a device draw from. A state is what at::Generator gives:
// of a GPU's the seed and the offset (Philox). Includes torch.
#pragma once

#include <ATen/core/Generator.h>

#include <vector>

namespace ebbtide::plugin {

class DeviceRandom {
 public:
  virtual ~DeviceRandom() = default;
  // Shared by all threads. The first is the one that an op draws from if it is given none; no op
  // may draw from another one and be run again.
  virtual std::vector<at::Generator> shared() const = 0;
  // Nobody else's, of the same kind as the first.
  virtual at::Generator make() const = 0;
};

}  // namespace ebbtide::plugin
