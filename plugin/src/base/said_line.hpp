// A line on stderr, of one write: lines of ranks that share a terminal or a file do not mix.
// stdio's would be of several, as stderr has no buffer (glibc from 2.37 on writes piece by piece).
// Torch-free.
#pragma once

#include <string_view>

namespace ebbtide::plugin {

// `text`: without the newline. What cannot be written is lost.
void sayLine(std::string_view text) noexcept;

}  // namespace ebbtide::plugin
