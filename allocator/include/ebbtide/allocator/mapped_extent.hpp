// MappedExtent: a live block (or one that was freed and waits for another stream's work), or
// mapped memory that is in none: what a device's memory consists of, for who wants to see it.
#pragma once

#include <vector>

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::allocator {

struct MappedExtent {
  const std::byte* begin = nullptr;
  Bytes bytes = 0;
  bool live = false;
  Stream stream = Stream::kDefault;
};

using MappedExtents = std::vector<MappedExtent>;

}  // namespace ebbtide::allocator
