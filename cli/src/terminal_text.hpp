// Text that others wrote, made fit for a terminal: no escape sequence of theirs comes through.
#pragma once

#include <string>
#include <string_view>

namespace ebbtide::cli {

// Valid UTF-8 without control characters, without those that reorder or hide text; each of them
// and each wrong byte becomes '?'.
std::string forTerminal(std::string_view text);

// The same in printable ASCII alone: one column for each byte.
std::string forColumns(std::string_view text);

}  // namespace ebbtide::cli
