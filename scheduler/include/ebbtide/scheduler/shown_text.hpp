// What somebody gave, as a message quotes it: on one line, and not longer than one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ebbtide::scheduler {

inline constexpr std::size_t kMostShown = 200;    // bytes of it
inline constexpr std::size_t kMostOfPath = 4096;  // its end names the file

// Control characters as in C ("\n", "\x1b"); what is cut off is "…".
std::string shownText(std::string_view text, std::size_t most_bytes = kMostShown);

}  // namespace ebbtide::scheduler
