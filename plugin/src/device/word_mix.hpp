// One word taken into the state of a checksum or a fingerprint.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace ebbtide::plugin {

inline std::uint64_t mixed(std::uint64_t state, std::uint64_t word) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15ULL;  // 2^64 over the golden ratio
  return std::rotl((state ^ word) * kOdd, 29);
}

// At any address.
inline std::uint64_t wordAt(const unsigned char* data) {
  std::uint64_t word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

}  // namespace ebbtide::plugin
