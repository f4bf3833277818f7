#include "fingerprint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ebbtide::plugin {
namespace {

std::vector<unsigned char> bytes(std::size_t count) {
  std::vector<unsigned char> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<unsigned char>(i * 131 >> 3);
  return data;
}

Fingerprint print(const std::vector<unsigned char>& data) {
  return Fingerprint::of(data.data(), static_cast<std::int64_t>(data.size()));
}

// 16 KiB is the most that is read whole: 256 lines of 64 bytes.
TEST(Fingerprint, OfUpTo16KiBDependsOnEveryByte) {
  for (const std::size_t size : {1u, 7u, 8u, 65u, 16384u}) {
    auto data = bytes(size);
    const Fingerprint before = print(data);
    for (std::size_t i = 0; i < size; ++i) {
      data[i] ^= 1;
      EXPECT_FALSE(print(data) == before) << size << " bytes, byte " << i;
      data[i] ^= 1;
    }
    EXPECT_TRUE(print(data) == before);
  }
}

// Lines start every (size - 64) / 255 bytes: 4112 for 1 MiB. So a change of 4112 bytes in a row
// hits at least one.
TEST(Fingerprint, OfALargeValueSeesEveryChangeAsLongAsTheGaps) {
  const auto original = bytes(1 << 20);
  const Fingerprint before = print(original);
  for (std::size_t begin = 0; begin + 4112 <= original.size(); begin += 4001) {
    auto data = original;
    for (std::size_t i = begin; i < begin + 4112; ++i) data[i] ^= 0x10;
    EXPECT_FALSE(print(data) == before) << begin;
  }
  auto last = original;
  last.back() ^= 1;
  EXPECT_FALSE(print(last) == before);
}

// 1 MiB, as above: the byte behind the first line is in no line, which begin 4112 bytes apart.
TEST(Fingerprint, OfAllSeesWhatASampleMisses) {
  const auto original = bytes(1 << 20);
  const auto size = static_cast<std::int64_t>(original.size());
  const auto sample = Fingerprint::of(original.data(), size);
  const auto all = Fingerprint::of(original.data(), size, Fingerprint::Extent::kAll);
  EXPECT_TRUE(all.isOf(original.data(), size));
  auto data = original;
  data[64] ^= 1;
  EXPECT_TRUE(sample.isOf(data.data(), size));
  EXPECT_FALSE(all.isOf(data.data(), size));
}

TEST(Fingerprint, DependsOnTheSizeAndOrder) {
  const std::vector<unsigned char> zeros(64, 0);
  EXPECT_FALSE(Fingerprint::of(zeros.data(), 32) == Fingerprint::of(zeros.data(), 64));
  auto data = bytes(64);
  const Fingerprint before = print(data);
  std::swap_ranges(data.begin(), data.begin() + 8, data.begin() + 8);
  EXPECT_FALSE(print(data) == before);
}

}  // namespace
}  // namespace ebbtide::plugin
