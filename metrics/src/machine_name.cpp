#include "ebbtide/metrics/machine_name.hpp"

#include <unistd.h>

#include <array>

namespace ebbtide::metrics {

std::string machineName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace ebbtide::metrics
