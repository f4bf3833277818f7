#include "host_contents.hpp"

#include <cstring>

namespace ebbtide::plugin {

bool HostContents::equal(const void* a, const void* b, std::int64_t bytes) const noexcept {
  return std::memcmp(a, b, static_cast<std::size_t>(bytes)) == 0;
}

void HostContents::copy(void* to, const void* from, std::int64_t bytes) const {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace ebbtide::plugin
