#include "ebbtide/scheduler/shown_text.hpp"

#include <array>
#include <cstdio>

namespace ebbtide::scheduler {
namespace {

// No character of UTF-8 is torn apart.
std::string_view cut(std::string_view text, std::size_t most_bytes) {
  const auto continues = [&text](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  while (most_bytes > 0 && continues(most_bytes)) --most_bytes;
  return text.substr(0, most_bytes);
}

}  // namespace

std::string shownText(std::string_view text, std::size_t most_bytes) {
  const bool whole = text.size() <= most_bytes;
  std::string shown;
  for (const char letter : whole ? text : cut(text, most_bytes)) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '\n') {
      shown += "\\n";
    } else if (letter == '\t') {
      shown += "\\t";
    } else if (letter == '\r') {
      shown += "\\r";
    } else if (code < 0x20 || code == 0x7F) {
      std::array<char, 8> escaped;
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(code));
      shown += escaped.data();
    } else {
      shown += letter;
    }
  }
  return whole ? shown : shown + "…";
}

}  // namespace ebbtide::scheduler
