#include "device/checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

namespace ebbtide::plugin {
namespace {

std::vector<unsigned char> bytes(std::size_t count) {
  std::vector<unsigned char> data(count);
  for (std::size_t i = 0; i < count; ++i)
    data[i] = static_cast<unsigned char>(i * i * 37 + (i >> 5));
  return data;
}

Checksum sum(const std::vector<unsigned char>& data) {
  return Checksum::of(data.data(), static_cast<std::int64_t>(data.size()));
}

std::uint64_t mixed(std::uint64_t state, std::uint64_t word) {
  return std::rotl((state ^ word) * 0x9e3779b97f4a7c15ULL, 29);
}

// The definition in the header, word by word.
Checksum byDefinition(std::vector<unsigned char> data) {
  const std::uint64_t size = data.size();
  data.resize((data.size() + 7) / 8 * 8, 0);
  std::array<std::uint64_t, 4> mixture = {0, 1, 2, 3};
  std::array<std::uint64_t, 4> sums = {};
  for (std::size_t i = 0; i < data.size() / 8; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data() + 8 * i, 8);
    mixture[i % 4] = mixed(mixture[i % 4], word);
    sums[i % 4] = std::rotl(sums[i % 4], 7) + word;
  }
  Checksum result{size, size};
  for (int lane = 0; lane < 4; ++lane) {
    result.low = mixed(result.low, mixture[lane]);
    result.high = mixed(result.high, sums[lane]);
  }
  return result;
}

TEST(Checksum, IsWhatItsDefinitionSays) {
  for (std::size_t size = 0; size < 200; ++size)
    EXPECT_EQ(sum(bytes(size)), byDefinition(bytes(size))) << size;
}

// In parts of whole stripes, the last one of whatever is left, nothing included.
TEST(Checksum, OfPartsIsThatOfTheWhole) {
  for (const std::size_t size : {0u, 1u, 32u, 33u, 64u, 96u, 1021u}) {
    const auto data = bytes(size);
    ChecksumOfParts parts;
    for (std::size_t at = 0; at <= size; at += 64) {
      parts.take(data.data() + at, static_cast<std::int64_t>(std::min<std::size_t>(64, size - at)));
    }
    EXPECT_EQ(parts.sum(), sum(data)) << size;
  }
}

// Of nothing: the size 0, and the lanes as they begin: mixtures 0, 1, 2, 3 and sums 0. `high` stays
// 0, since (0 ^ 0) * kOdd = 0. `low` becomes 0 by lane 0 and rotl(kOdd, 29) by lane 1.
TEST(Checksum, OfNothing) {
  const Checksum nothing = Checksum::of(nullptr, 0);
  EXPECT_EQ(nothing.high, 0u);
  EXPECT_EQ(nothing.low, mixed(mixed(std::rotl(0x9e3779b97f4a7c15ULL, 29), 2), 3));
}

// One byte of value 1: a word 1 in lane 0, whose sum is rotl(0, 7) + 1 = 1; the other sums are 0,
// and the size is 1. So `high` is 0 after lane 0: (1 ^ 1) * kOdd.
TEST(Checksum, OfOneByte) {
  const unsigned char one = 1;
  const Checksum checksum = Checksum::of(&one, 1);
  EXPECT_EQ(checksum.high, 0u);
  const std::uint64_t lane0 = std::rotl(std::uint64_t{0x9e3779b97f4a7c15ULL}, 29);
  EXPECT_EQ(checksum.low, mixed(mixed(mixed(mixed(1, lane0), 1), 2), 3));
}

// Sizes with whole stripes, single words and single bytes at the end.
TEST(Checksum, EveryBitShowsInBothHalves) {
  for (const std::size_t size : {1u, 7u, 8u, 31u, 32u, 33u, 64u, 100u, 1021u}) {
    auto data = bytes(size);
    const Checksum before = sum(data);
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      data[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
      const Checksum now = sum(data);
      EXPECT_NE(now.low, before.low) << size << " bytes, bit " << bit;
      EXPECT_NE(now.high, before.high) << size << " bytes, bit " << bit;
      data[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    }
    EXPECT_EQ(sum(data), before);
  }
}

// Also in zeros, where the sums do not move, and in the words of one lane.
TEST(Checksum, EveryPairOfBitsShows) {
  for (const bool zeros : {true, false}) {
    auto data = zeros ? std::vector<unsigned char>(72, 0) : bytes(72);
    const Checksum before = sum(data);
    const auto flip = [&data](std::size_t bit) {
      data[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    };
    for (std::size_t first = 0; first < 8 * data.size(); ++first) {
      flip(first);
      for (std::size_t second = first + 1; second < 8 * data.size(); ++second) {
        flip(second);
        EXPECT_NE(sum(data), before) << first << " and " << second;
        flip(second);
      }
      flip(first);
    }
  }
}

TEST(Checksum, DependsOnTheSizeAndTheOrder) {
  const std::vector<unsigned char> zeros(64, 0);
  for (std::int64_t size = 0; size < 64; ++size)
    EXPECT_NE(Checksum::of(zeros.data(), size), Checksum::of(zeros.data(), size + 1)) << size;
  auto data = bytes(128);
  const Checksum before = sum(data);
  for (const std::ptrdiff_t distance : {8, 32, 40, 64}) {  // another lane, or the same one
    std::swap_ranges(data.begin(), data.begin() + 8, data.begin() + distance);
    EXPECT_NE(sum(data), before) << distance;
    std::swap_ranges(data.begin(), data.begin() + 8, data.begin() + distance);
  }
}

}  // namespace
}  // namespace ebbtide::plugin
