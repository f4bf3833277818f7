// Text that others wrote, made fit for a terminal: no escape sequence of theirs comes through.
#pragma once

#include <string>
#include <string_view>

namespace ebbtide::cli {

// Valid UTF-8. '?' replaces each control character, each character that reorders or hides text, and
// each wrong byte.
std::string forTerminal(std::string_view text);

// The same in printable ASCII alone: one column for each byte.
std::string forColumns(std::string_view text);

}  // namespace ebbtide::cli
