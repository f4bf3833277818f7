#include "reservation.hpp"

#include <algorithm>
#include <new>

#include "size_class.hpp"

namespace ebbtide::allocator {

Reservation::Reservation(AddressSpace& space, Bytes wanted_bytes)
    : space_(space), bytes_(roundUp(std::clamp(wanted_bytes, kLeastBytes, kMostBytes), kStep)) {
  for (;; bytes_ = roundUp(bytes_ / 2, kStep)) {
    begin_ = static_cast<std::byte*>(space_.reserve(bytes_));
    if (begin_ != nullptr) return;
    if (bytes_ == kLeastBytes) throw std::bad_alloc();
  }
}

}  // namespace ebbtide::allocator
