#include "device/fingerprint.hpp"

#include <cstring>
#include <initializer_list>

#include "device/word_mix.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kLineBytes = 64;
constexpr std::int64_t kLines = 256;  // some microseconds when none of them is cached

// The words of a line go to one lane each, by name: no lane waits for another one's multiplication,
// nor a line for the one before to come from memory. One changed word always shows.
class Lines {
 public:
  void take(const unsigned char* line) {
    a_ = mixed(a_, wordAt(line));
    b_ = mixed(b_, wordAt(line + 8));
    c_ = mixed(c_, wordAt(line + 16));
    d_ = mixed(d_, wordAt(line + 24));
    e_ = mixed(e_, wordAt(line + 32));
    f_ = mixed(f_, wordAt(line + 40));
    g_ = mixed(g_, wordAt(line + 48));
    h_ = mixed(h_, wordAt(line + 56));
  }
  std::uint64_t sum(std::uint64_t state) const {
    for (const std::uint64_t lane : {a_, b_, c_, d_, e_, f_, g_, h_}) state = mixed(state, lane);
    return state;
  }

 private:
  std::uint64_t a_ = 0, b_ = 1, c_ = 2, d_ = 3, e_ = 4, f_ = 5, g_ = 6, h_ = 7;
};

std::uint64_t sumOfAll(const unsigned char* data, std::int64_t bytes) {
  Lines lines;
  std::int64_t left = bytes;
  for (; left >= kLineBytes; data += kLineBytes, left -= kLineBytes) lines.take(data);
  if (left > 0) {
    unsigned char rest[kLineBytes] = {};
    std::memcpy(rest, data, static_cast<std::size_t>(left));
    lines.take(rest);
  }
  return lines.sum(static_cast<std::uint64_t>(bytes));
}

// The first line is at the begin, the last one at the end.
std::uint64_t sumOfSome(const unsigned char* data, std::int64_t bytes) {
  Lines lines;
  const std::int64_t apart = (bytes - kLineBytes) / (kLines - 1);
  for (std::int64_t line = 0; line < kLines; ++line) lines.take(data + apart * line);
  lines.take(data + bytes - kLineBytes);
  return lines.sum(static_cast<std::uint64_t>(bytes));
}

}  // namespace

Fingerprint Fingerprint::of(const void* data, std::int64_t bytes, Extent extent) noexcept {
  if (extent == Extent::kAll) return {Checksum::of(data, bytes), extent};
  const auto* begin = static_cast<const unsigned char*>(data);
  const bool all = bytes <= kLines * kLineBytes;
  return {{.low = all ? sumOfAll(begin, bytes) : sumOfSome(begin, bytes)}, extent};
}

}  // namespace ebbtide::plugin
