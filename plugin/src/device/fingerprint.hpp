// Fingerprint: a hash of a value's contents, cheap enough to be taken of every dropped value.
//
// A sample has all bytes of a small value, evenly spread cache lines of a large one: a replay under
// other flags, from other inputs or another random state differs nearly everywhere. A verification
// step takes the checksum of all bytes: later steps do not look that closely. Torch-free.
#pragma once

#include <cstdint>

#include "device/checksum.hpp"

namespace ebbtide::plugin {

class Fingerprint {
 public:
  enum class Extent : std::uint8_t { kSample, kAll };

  static Fingerprint of(const void* data, std::int64_t bytes,
                        Extent extent = Extent::kSample) noexcept;
  bool isOf(const void* data, std::int64_t bytes) const noexcept {
    return of(data, bytes, extent_) == *this;
  }
  Extent extent() const noexcept { return extent_; }
  bool operator==(const Fingerprint&) const = default;

  // Of a device that sums its bytes up in its own way.
  Fingerprint(Checksum sum, Extent extent) noexcept : sum_(sum), extent_(extent) {}

 private:
  Checksum sum_;  // of the host's samples `low` alone
  Extent extent_;
};

}  // namespace ebbtide::plugin
