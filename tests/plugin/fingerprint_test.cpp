#include "device/fingerprint.hpp"

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

TEST(Fingerprint, OfALargeValueSeesItsLastByte) {
  auto data = bytes(1 << 20);
  const Fingerprint before = print(data);
  data.back() ^= 1;
  EXPECT_FALSE(print(data) == before);
}

// The sample of 1 MiB is of 64-byte lines with gaps: the byte behind the first line is in none.
TEST(Fingerprint, OfAllSeesWhatASampleMisses) {
  auto data = bytes(1 << 20);
  const auto size = static_cast<std::int64_t>(data.size());
  const auto sample = Fingerprint::of(data.data(), size);
  const auto all = Fingerprint::of(data.data(), size, Fingerprint::Extent::kAll);
  EXPECT_TRUE(all.isOf(data.data(), size));
  data[64] ^= 1;
  EXPECT_TRUE(sample.isOf(data.data(), size));
  EXPECT_FALSE(all.isOf(data.data(), size));
  data[63] ^= 1;
  EXPECT_FALSE(sample.isOf(data.data(), size));
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
