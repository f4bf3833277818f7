// HostLanes: DeviceLanes of the CPU, where a call returns when its work is done.
#pragma once

#include "device/torch/device_lanes.hpp"

namespace ebbtide::plugin {

class HostLanes final : public DeviceLanes {
 public:
  Lane now() const noexcept override { return 0; }
  Capture capture() const noexcept override { return Capture::kNone; }
  bool switchTo(Lane) const noexcept override { return true; }
  void readHere(const c10::Storage&) const override {}
  bool backwardElsewhere() const noexcept override { return false; }
};

}  // namespace ebbtide::plugin
