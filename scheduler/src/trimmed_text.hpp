// A text without the spaces around it.
#pragma once

#include <string_view>

namespace ebbtide::scheduler {

inline std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace ebbtide::scheduler
