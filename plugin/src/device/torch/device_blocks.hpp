// DeviceBlocks: the memory of tensors on a device, as torch's allocator there gives it. Includes
// torch.
#pragma once

#include <c10/core/Storage.h>

#include "base/fill_pattern.hpp"

namespace ebbtide::plugin {

class DeviceBlocks {
 public:
  virtual ~DeviceBlocks() = default;
  // Throws c10::OutOfMemoryError.
  virtual c10::Storage allocate(std::size_t bytes) const = 0;
  // Was this storage's memory made by our allocator for the lane that this thread asks on, and does
  // its data start at the block's start? A block of another lane may be in use there when it is
  // freed.
  virtual bool isOurs(const c10::Storage& storage) const noexcept = 0;
  // What this thread allocates from now on is filled with the pattern, before any op writes there.
  // Returns the one before.
  virtual FillPattern fillNew(FillPattern pattern) const noexcept = 0;
  // A storage that owns a block of ours which nobody else owns: its free kept it
  // (memory/dropped_blocks.hpp).
  virtual c10::Storage adopt(void* block, std::size_t bytes) const = 0;
};

}  // namespace ebbtide::plugin
