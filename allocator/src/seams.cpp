#include "seams.hpp"

#include <algorithm>

namespace ebbtide::allocator {

Seams::Seams() : sorted_(std::make_unique_for_overwrite<Address[]>(kMost)) {}

void Seams::addRange(const void* begin, Bytes bytes) noexcept {
  const auto first = reinterpret_cast<Address>(begin);
  add(first);
  add(first + static_cast<Address>(bytes));
}

void Seams::removeRange(const void* begin, Bytes bytes) noexcept {
  const auto first = reinterpret_cast<Address>(begin);
  Address* const end = sorted_.get() + count_;
  Address* const from = std::lower_bound(sorted_.get(), end, first);
  Address* const to = std::upper_bound(from, end, first + static_cast<Address>(bytes));
  std::move(to, end, from);
  count_ -= static_cast<std::size_t>(to - from);
}

Bytes Seams::bytesUntilNext(const void* begin, Bytes bytes) const noexcept {
  const auto first = reinterpret_cast<Address>(begin);
  Address* const end = sorted_.get() + count_;
  Address* const next = std::upper_bound(sorted_.get(), end, first);
  return next == end ? bytes : std::min(bytes, static_cast<Bytes>(*next - first));
}

void Seams::add(Address address) noexcept {
  Address* const end = sorted_.get() + count_;
  Address* const at = std::lower_bound(sorted_.get(), end, address);
  if ((at != end && *at == address) || room() == 0) return;
  std::move_backward(at, end, end + 1);
  *at = address;
  ++count_;
}

}  // namespace ebbtide::allocator
