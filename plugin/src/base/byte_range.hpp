// ByteRange: a stretch of a storage, from one byte to before another. Torch-free.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ebbtide::plugin {

struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t bytes() const noexcept { return end - begin; }
  bool empty() const noexcept { return end <= begin; }
  bool holds(const ByteRange& other) const noexcept {
    return other.empty() || (begin <= other.begin && other.end <= end);
  }
  // The smallest that holds both.
  ByteRange with(const ByteRange& other) const noexcept {
    if (other.empty()) return *this;
    if (empty()) return other;
    return {std::min(begin, other.begin), std::max(end, other.end)};
  }
  // Where it begins in a storage that begins there.
  const void* in(const void* storage) const noexcept {
    return static_cast<const char*>(storage) + begin;
  }
  bool operator==(const ByteRange&) const = default;
};

}  // namespace ebbtide::plugin
