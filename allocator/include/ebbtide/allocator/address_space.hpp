// AddressSpace: boundary to whatever gives memory by pages: the system (host_address_space.hpp), a
// GPU's driver (cuda/address_space.hpp).
//
//   reserve ─► addresses without memory ─ map ─► memory ─ unmap ─► addresses without memory
//
// Addresses are never given back while a resource lives, so what a pointer belongs to is known from
// its value alone. Ranges are multiples of pageBytes(), and lie in one reservation. A range may be
// unmapped in other pieces than it was mapped in. Thread rule: any thread, any time; the callers
// see to it that no range is used by two calls at once.
#pragma once

#include "ebbtide/allocator/bytes.hpp"

namespace ebbtide::allocator {

class AddressSpace {
 public:
  virtual ~AddressSpace() = default;
  virtual Bytes pageBytes() const noexcept = 0;  // a power of two; constant
  // Aligned to 2 MiB and to pageBytes(). nullptr when there are no such addresses.
  virtual void* reserve(Bytes bytes) noexcept = 0;
  // A whole reservation, with all that is mapped in it.
  virtual void release(void* begin, Bytes bytes) noexcept = 0;
  // Contents undefined. False when there is no memory: nothing of the range is mapped then.
  virtual bool map(void* begin, Bytes bytes) noexcept = 0;
  // Device work that uses the range must be over.
  virtual void unmap(void* begin, Bytes bytes) noexcept = 0;
};

}  // namespace ebbtide::allocator
