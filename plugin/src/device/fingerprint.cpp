#include "device/fingerprint.hpp"

#include <bit>
#include <cstring>

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kLines = 256;  // some microseconds when none of them is cached

void mixWord(std::uint64_t& state, const unsigned char* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  state = std::rotl((state ^ word) * 0x9e3779b97f4a7c15ULL, 29);
}

void mixBytes(std::uint64_t& state, const unsigned char* bytes, std::int64_t count) {
  for (; count >= 8; bytes += 8, count -= 8) mixWord(state, bytes);
  unsigned char rest[8] = {};
  std::memcpy(rest, bytes, static_cast<std::size_t>(count));
  if (count > 0) mixWord(state, rest);
}

}  // namespace

Fingerprint Fingerprint::of(const void* data, std::int64_t bytes, Extent extent) noexcept {
  if (extent == Extent::kAll) return {Checksum::of(data, bytes), extent};
  const auto* begin = static_cast<const unsigned char*>(data);
  auto state = static_cast<std::uint64_t>(bytes);
  if (bytes <= kLines * kLineBytes) {
    mixBytes(state, begin, bytes);
    return {{.low = state}, extent};
  }
  for (std::int64_t line = 0; line < kLines; ++line) {
    // The first line is at the begin, the last one at the end.
    mixBytes(state, begin + (bytes - kLineBytes) / (kLines - 1) * line, kLineBytes);
  }
  mixBytes(state, begin + bytes - kLineBytes, kLineBytes);
  return {{.low = state}, extent};
}

}  // namespace ebbtide::plugin
