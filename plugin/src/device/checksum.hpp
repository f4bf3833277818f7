// Checksum: 128 bits of all bytes of a value: what one leaves that is dropped under memory
// pressure, and what one is judged by that was written to the disk.
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

#include <array>
#include <cstdint>

namespace ebbtide::plugin {

struct Checksum {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  static Checksum of(const void* data, std::int64_t bytes) noexcept;
  bool operator==(const Checksum&) const = default;
};

// The same checksum, of bytes that come in parts. All parts but the last have a multiple of 32 B.
class ChecksumOfParts {
 public:
  void take(const void* data, std::int64_t bytes) noexcept;
  Checksum sum() const noexcept;

 private:
  struct Lane {
    std::uint64_t mixture;
    std::uint64_t sum = 0;

    void take(std::uint64_t word) noexcept;
  };

  std::array<Lane, 4> lanes_ = {{{0}, {1}, {2}, {3}}};
  std::uint64_t bytes_ = 0;
};

}  // namespace ebbtide::plugin
