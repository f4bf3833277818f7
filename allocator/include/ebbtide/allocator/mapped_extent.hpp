// MappedExtent: a live block (or one that was freed and waits for another stream's work), or
// mapped memory that is in none. Together these are all of a device's mapped memory.
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
