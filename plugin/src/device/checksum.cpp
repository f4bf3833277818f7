#include "device/checksum.hpp"

#include <bit>
#include <cstring>

#include "device/word_mix.hpp"

namespace ebbtide::plugin {
inline void ChecksumOfParts::Lane::take(std::uint64_t word) noexcept {
  mixture = mixed(mixture, word);
  sum = std::rotl(sum, 7) + word;
}

void ChecksumOfParts::take(const void* data, std::int64_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  // Four at once, by name: the states of all stay in registers, and a multiplication begins each
  // cycle, though it takes three.
  auto [a, b, c, d] = lanes_;
  std::int64_t left = bytes;
  for (; left >= 32; at += 32, left -= 32) {
    a.take(wordAt(at));
    b.take(wordAt(at + 8));
    c.take(wordAt(at + 16));
    d.take(wordAt(at + 24));
  }
  unsigned char rest[32] = {};
  if (left > 0) std::memcpy(rest, at, static_cast<std::size_t>(left));
  if (left > 0) a.take(wordAt(rest));
  if (left > 8) b.take(wordAt(rest + 8));
  if (left > 16) c.take(wordAt(rest + 16));
  if (left > 24) d.take(wordAt(rest + 24));
  lanes_ = {a, b, c, d};
  bytes_ += static_cast<std::uint64_t>(bytes);
}

Checksum ChecksumOfParts::sum() const noexcept {
  Checksum sum{bytes_, bytes_};
  for (const Lane& lane : lanes_) {
    sum.low = mixed(sum.low, lane.mixture);
    sum.high = mixed(sum.high, lane.sum);
  }
  return sum;
}

Checksum Checksum::of(const void* data, std::int64_t bytes) noexcept {
  ChecksumOfParts all;
  all.take(data, bytes);
  return all.sum();
}

}  // namespace ebbtide::plugin
