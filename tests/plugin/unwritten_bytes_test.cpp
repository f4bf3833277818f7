#include "unwritten_bytes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ebbtide::plugin {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr unsigned char kFirst = 7;
constexpr unsigned char kSecond = 0;

// Two runs of a kernel that writes 1, 2, 3, … but leaves `hole` as it is.
class UnwrittenBytesTest : public testing::Test {
 protected:
  explicit UnwrittenBytesTest(std::size_t bytes = 10'000) : first_(bytes), second_(bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      const bool written = i < 5000 || i >= 5100;
      first_[i] = written ? static_cast<unsigned char>(i) : kFirst;
      second_[i] = written ? static_cast<unsigned char>(i) : kSecond;
    }
    original_ = first_;
    for (std::size_t i = 5000; i < 5100; ++i) original_[i] = static_cast<unsigned char>(3 * i);
  }
  bool equal(const Bytes& original) const {
    return equalWhereWritten(original.data(), {first_.data(), kFirst}, {second_.data(), kSecond},
                             static_cast<std::int64_t>(original.size()));
  }

  Bytes first_, second_, original_;
};

TEST_F(UnwrittenBytesTest, BytesThatKeepBothPatternsDoNotCount) {
  EXPECT_TRUE(equal(original_));
  EXPECT_TRUE(equal(first_));  // so it repeats
}

TEST_F(UnwrittenBytesTest, EachWrittenByteCounts) {
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{4999}, std::size_t{5100}, std::size_t{9999}}) {
    Bytes other = original_;
    other[at] ^= 1;
    EXPECT_FALSE(equal(other)) << at;
  }
}

TEST_F(UnwrittenBytesTest, WhatDiffersBetweenTheRunsDoesNotRepeat) {
  second_[5050] = 9;  // neither pattern: it was written, once
  EXPECT_FALSE(equal(first_));
  EXPECT_FALSE(equal(original_));
}

// A written byte may have the pattern by chance: in one of the runs, not in both.
TEST_F(UnwrittenBytesTest, AWrittenByteThatLooksLikeOnePatternCounts) {
  Bytes other = original_;
  ASSERT_EQ(first_[kFirst], kFirst);
  ASSERT_EQ(second_[kFirst], kFirst);
  other[kFirst] = 1;
  EXPECT_FALSE(equal(other));
}

TEST_F(UnwrittenBytesTest, OnePatternTellsNothing) {
  const FilledRun run{first_.data(), kFirst};
  EXPECT_FALSE(equalWhereWritten(original_.data(), run, run, 10'000));
  EXPECT_TRUE(equalWhereWritten(first_.data(), run, run, 10'000));
}

}  // namespace
}  // namespace ebbtide::plugin
