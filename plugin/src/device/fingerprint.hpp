// Fingerprint: a check sum of a value's contents, cheap enough to be taken of every dropped value.
//
// All bytes of a small value, evenly spread cache lines of a large one: a replay under other flags,
// from other inputs or another random state differs nearly everywhere. Torch-free.
#pragma once

#include <cstdint>

#include "device/checksum.hpp"

namespace ebbtide::plugin {

class Fingerprint {
 public:
  static Fingerprint of(const void* data, std::int64_t bytes) noexcept;
  bool isOf(const void* data, std::int64_t bytes) const noexcept {
    return of(data, bytes) == *this;
  }
  bool operator==(const Fingerprint&) const = default;

  // Of a device that sums all of its bytes up in its own way.
  explicit Fingerprint(Checksum sum) noexcept : sum_(sum) {}

 private:
  Checksum sum_;  // the host's: `low` alone
};

}  // namespace ebbtide::plugin
