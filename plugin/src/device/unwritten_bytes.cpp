#include "device/unwritten_bytes.hpp"

#include <algorithm>
#include <cstring>

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kStretch = 4096;  // mostly all of it is written

bool equal(const void* a, const void* b, std::int64_t bytes) {
  return std::memcmp(a, b, static_cast<std::size_t>(bytes)) == 0;
}

}  // namespace

bool equalWhereWritten(const void* original, const FilledRun& first, const FilledRun& second,
                       std::int64_t bytes) noexcept {
  if (first.data == second.data && first.pattern == second.pattern) {
    return equal(original, first.data, bytes);
  }
  const auto* const wanted = static_cast<const unsigned char*>(original);
  const auto* const one = static_cast<const unsigned char*>(first.data);
  const auto* const other = static_cast<const unsigned char*>(second.data);
  const bool two_patterns = first.pattern != second.pattern;
  for (std::int64_t at = 0; at < bytes; at += kStretch) {
    const std::int64_t end = std::min(at + kStretch, bytes);
    if (equal(one + at, other + at, end - at) && equal(one + at, wanted + at, end - at)) continue;
    for (std::int64_t i = at; i < end; ++i) {
      const bool written = one[i] != first.pattern || other[i] != second.pattern || !two_patterns;
      if (written && (one[i] != wanted[i] || other[i] != wanted[i])) return false;
    }
  }
  return true;
}

}  // namespace ebbtide::plugin
