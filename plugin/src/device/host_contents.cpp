#include "device/host_contents.hpp"

#include <cstring>

namespace ebbtide::plugin {

void HostContents::copy(void* to, const void* from, std::int64_t bytes) const {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace ebbtide::plugin
