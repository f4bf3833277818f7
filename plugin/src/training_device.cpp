#include "training_device.hpp"

#include "host_clock.hpp"
#include "host_contents.hpp"

namespace ebbtide::plugin {

// Leaked: graphs may end while the process exits.
const TrainingDevice& trainingDevice() noexcept {
  static const auto* const host = new TrainingDevice{.contents = *new HostContents(), .clock = *new HostClock()};
  return *host;
}

}  // namespace ebbtide::plugin
