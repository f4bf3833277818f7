// Checksum: 128 bits of all bytes of a value; what a value that is dropped under memory pressure
// leaves.
//
// Words of 8 bytes in the machine's order, the last one filled up with zeros, go to 4 lanes in
// turn. A lane is two words of state, at first mixed = lane and sum = 0, and takes a word w by
//
//   mixed = rotl((mixed ^ w) * kOdd, 29)       sum = rotl(sum, 7) + w
//
// At the end `low` begins as the size and takes the lanes' mixed words in the way that a lane does,
// `high` likewise their sums. Each step is one-to-one in the word taken and in the state before:
// one changed word always shows, in both halves. More than one escape by chance alone, about once
// in 2^128. No defence against somebody who looks for them. Torch-free.
#pragma once

#include <cstdint>

namespace ebbtide::plugin {

struct Checksum {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  static Checksum of(const void* data, std::int64_t bytes) noexcept;
  bool operator==(const Checksum&) const = default;
};

}  // namespace ebbtide::plugin
