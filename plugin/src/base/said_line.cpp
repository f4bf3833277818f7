#include "base/said_line.hpp"

#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>

namespace ebbtide::plugin {

void sayLine(std::string_view text) noexcept try {
  std::string line;
  line.reserve(text.size() + 1);
  line.append(text) += '\n';
  std::string_view rest = line;
  while (!rest.empty()) {  // once, unless a signal or a full pipe comes between
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written == 0 || (written < 0 && errno != EINTR)) return;
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
} catch (const std::bad_alloc&) {
}

}  // namespace ebbtide::plugin
