// Seams: the addresses where one of the system's mappings may end and the next begin.
//
// Pages move within one mapping at a time, so a range is cut at its seams before it moves. Only a
// seam inside a range matters; a recorded one that the system has merged away costs a call more, a
// missing one makes the move fail. Not thread-safe: the resource calls it under its lock, so
// nothing here allocates after construction.
//
//   map, map            |-----------|-----------|
//   cut: no new seam    |----- -----|----- -----|
//   gather              |-----|--|--------| fresh |
#pragma once

#include <memory>

#include "ebbtide/allocator/caching_resource.hpp"

namespace ebbtide::allocator {

class Seams {
 public:
  // Linux allows a process 65530 mappings unless told otherwise; others need some too.
  static constexpr std::size_t kMost = 30'000;

  Seams();

  std::size_t room() const noexcept { return kMost - count_; }
  // Both ends of a new mapping. Without room they are forgotten.
  void addRange(const void* begin, Bytes bytes) noexcept;
  // All within, both ends included: whatever is mapped there next brings its own.
  void removeRange(const void* begin, Bytes bytes) noexcept;
  // How many bytes from begin on are free of seams inside, at most `bytes`.
  Bytes bytesUntilNext(const void* begin, Bytes bytes) const noexcept;

 private:
  using Address = std::uintptr_t;

  void add(Address address) noexcept;

  std::unique_ptr<Address[]> sorted_;
  std::size_t count_ = 0;
};

}  // namespace ebbtide::allocator
