// Reservation: addresses of a space, for as long as it lives.
#pragma once

#include <cstdint>

#include "ebbtide/allocator/address_space.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"

namespace ebbtide::allocator {

class Reservation {
 public:
  // Where addresses are limited (RLIMIT_AS, say) by halves fewer. Throws std::bad_alloc when there
  // are not even kLeastBytes.
  Reservation(AddressSpace& space, Bytes wanted_bytes);
  ~Reservation() {
    if (!kept_) space_.release(begin_, bytes_);
  }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  static constexpr Bytes kStep = Bytes{64} << 20;
  static constexpr Bytes kLeastBytes = 2 * kStep;
  static constexpr Bytes kMostBytes = Bytes{8} << 40;

  std::byte* begin() const noexcept { return begin_; }
  Bytes bytes() const noexcept { return bytes_; }  // a multiple of kStep
  bool owns(const void* pointer) const noexcept {
    return pointer >= begin_ && pointer < begin_ + bytes_;
  }
  // By units of kUnitBytes, counted from the begin.
  std::uint32_t units() const noexcept { return static_cast<std::uint32_t>(bytes_ / kUnitBytes); }
  std::byte* addressOf(std::uint32_t unit) const noexcept {
    return begin_ + Bytes{unit} * kUnitBytes;
  }
  std::uint32_t unitOf(const void* pointer) const noexcept {  // that it lies in
    return static_cast<std::uint32_t>((static_cast<const std::byte*>(pointer) - begin_) /
                                      kUnitBytes);
  }
  // A block still lives there: addresses and pages stay for good.
  void keep() noexcept { kept_ = true; }

 private:
  AddressSpace& space_;
  std::byte* begin_ = nullptr;
  Bytes bytes_ = 0;
  bool kept_ = false;
};

}  // namespace ebbtide::allocator
