// MemoryResource: allocate and free. Every other ability is a resource of its own around another.
//
// Thread rule: every function may be called from any thread.
#pragma once

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::allocator {

class MemoryResource {
 public:
  virtual ~MemoryResource() = default;
  // nullptr for 0 bytes, and when out of memory or out of budget. The block may be used by work
  // that is queued on `stream` from now on.
  virtual void* allocate(std::size_t bytes, Stream stream) noexcept = 0;
  // nullptr is ignored. A pointer that is no live block ends the process with a message. Work that
  // is queued on the block's stream by now may still use it; other streams are told of by
  // recordStream().
  virtual void deallocate(void* block) noexcept = 0;
  // What the block takes, rounding included; 0 for nullptr.
  virtual Bytes blockBytes(const void* block) const noexcept = 0;
  // Work on this stream uses the block, too: once freed it waits for what is queued there then.
  virtual void recordStream(void* block, Stream stream) noexcept = 0;
};

}  // namespace ebbtide::allocator
