// StableHash: of words and texts, the same in every process and on every machine: no address and no
// seed goes in. Torch-free.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace ebbtide::plugin {

class StableHash {
 public:
  StableHash& add(std::uint64_t word) noexcept {
    state_ = std::rotl((state_ ^ word) * 0x9e3779b97f4a7c15ULL, 29) + 0x2545f4914f6cdd1dULL;
    return *this;
  }
  StableHash& add(std::string_view text) noexcept {
    add(text.size());
    for (const char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    return *this;
  }
  // Each bit of the state reaches each of these (splitmix64's end).
  std::uint64_t value() const noexcept {
    std::uint64_t hash = state_;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebULL;
    return hash ^ (hash >> 31);
  }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace ebbtide::plugin
