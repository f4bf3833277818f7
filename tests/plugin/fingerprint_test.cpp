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

// Words that change places, within a line or between two, and whole lines that do.
TEST(Fingerprint, DependsOnThePlaceOfEachWord) {
  constexpr std::size_t kWord = 8, kLine = 64, kBytes = 4 * kLine;
  const auto swapped = [](std::size_t a, std::size_t b, std::size_t count) {
    auto data = bytes(kBytes);
    std::swap_ranges(data.begin() + static_cast<std::ptrdiff_t>(a),
                     data.begin() + static_cast<std::ptrdiff_t>(a + count),
                     data.begin() + static_cast<std::ptrdiff_t>(b));
    return data;
  };
  const auto data = bytes(kBytes);
  for (const std::size_t count : {kWord, kLine}) {
    for (std::size_t a = 0; a < kBytes; a += count) {
      for (std::size_t b = a + count; b < kBytes; b += count) {
        const auto other = swapped(a, b, count);
        ASSERT_NE(other, data);
        EXPECT_FALSE(print(other) == print(data)) << count << " bytes at " << a << " and " << b;
      }
    }
  }
}

// The same two words of each line change places: lanes that are mixed alike would not tell.
TEST(Fingerprint, DependsOnTheOrderOfTheWordsOfAllLines) {
  const auto data = bytes(16384);
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = a + 1; b < 8; ++b) {
      auto other = data;
      for (auto line = other.begin(); line != other.end(); line += 64)
        std::swap_ranges(line + static_cast<std::ptrdiff_t>(8 * a),
                         line + static_cast<std::ptrdiff_t>(8 * a + 8),
                         line + static_cast<std::ptrdiff_t>(8 * b));
      EXPECT_FALSE(print(other) == print(data)) << "words " << a << " and " << b;
    }
  }
}

// What a value differs in as a whole: its fill, the sign of each number, its begin.
TEST(Fingerprint, TellsFillsAndSignsAndShiftsApart) {
  for (const std::size_t size : {8u, 64u, 72u, 4096u, 16384u, 1u << 20}) {
    std::vector<std::vector<unsigned char>> all;
    for (const int fill : {0, 1, 0x7f, 0xcd, 0xff}) {
      all.emplace_back(size, static_cast<unsigned char>(fill));
      auto negated = all.back();  // of numbers of 4 bytes
      for (std::size_t i = 3; i < size; i += 4) negated[i] ^= 0x80;
      all.push_back(std::move(negated));
    }
    all.push_back(bytes(size));
    for (const std::size_t by : {1u, 8u, 64u}) {
      if (by >= size) continue;
      auto shifted = bytes(size);
      std::rotate(shifted.begin(), shifted.begin() + static_cast<std::ptrdiff_t>(by),
                  shifted.end());
      if (shifted != bytes(size)) all.push_back(std::move(shifted));
    }
    for (std::size_t a = 0; a < all.size(); ++a) {
      for (std::size_t b = a + 1; b < all.size(); ++b)
        EXPECT_FALSE(print(all[a]) == print(all[b])) << size << " bytes, " << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace ebbtide::plugin
