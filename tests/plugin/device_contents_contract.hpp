// What every DeviceContents has to pass. A test of one includes this and instantiates it with a
// function that makes one which takes bytes of the host, whatever it does to bring them over.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "device/device_contents.hpp"

namespace ebbtide::plugin {

inline std::vector<unsigned char> bytes(std::size_t count) {
  std::vector<unsigned char> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<unsigned char>(i * 131 >> 3);
  return data;
}

class DeviceContentsTest
    : public ::testing::TestWithParam<std::shared_ptr<const DeviceContents> (*)()> {
 protected:
  std::shared_ptr<const DeviceContents> contents_ = GetParam()();
};

// Each byte at the ends, and where the next 256 words begin, a block of threads. Between them every
// 29th: each place in a word, a line of 64 bytes and a warp of 32 words. Each byte would take an
// emulated GPU ten seconds.
inline bool isLookedAt(std::size_t at, std::size_t size) {
  const bool at_an_end = at < 64 || at + 64 >= size;
  return at_an_end || (at + 16) % 2048 < 32 || at % 29 == 0;
}

// Of 1, 8, 63 and 4097 bytes: words, parts of them, more than a page.
TEST_P(DeviceContentsTest, SeesEachByteThatDiffers) {
  for (const std::size_t size : {1u, 8u, 63u, 4097u}) {
    const auto a = bytes(size);
    auto b = a;
    const auto count = static_cast<std::int64_t>(size);
    EXPECT_TRUE(contents_->equal(a.data(), b.data(), count));
    const Checksum sum = contents_->checksum(a.data(), count);
    const Fingerprint all = contents_->fingerprint(a.data(), count, Fingerprint::Extent::kAll);
    const Fingerprint sample =
        contents_->fingerprint(a.data(), count, Fingerprint::Extent::kSample);
    for (std::size_t i = 0; i < size; ++i) {
      if (!isLookedAt(i, size)) continue;
      b[i] ^= 0x40;
      EXPECT_FALSE(contents_->equal(a.data(), b.data(), count)) << size << ", byte " << i;
      EXPECT_NE(contents_->checksum(b.data(), count), sum) << size << ", byte " << i;
      EXPECT_FALSE(contents_->match(all, b.data(), count)) << size << ", byte " << i;
      EXPECT_FALSE(contents_->match(sample, b.data(), count)) << size << ", byte " << i;
      b[i] ^= 0x40;
    }
    EXPECT_EQ(contents_->checksum(b.data(), count), sum);
    EXPECT_TRUE(contents_->match(all, b.data(), count));
    EXPECT_TRUE(contents_->match(sample, b.data(), count));
  }
}

// Two words change places: what only adds words up would not see it.
TEST_P(DeviceContentsTest, SeesTheOrder) {
  const auto a = bytes(4096);
  auto b = a;
  std::swap_ranges(b.begin(), b.begin() + 8, b.begin() + 1024);
  ASSERT_NE(a, b);
  EXPECT_NE(contents_->checksum(a.data(), 4096), contents_->checksum(b.data(), 4096));
  EXPECT_FALSE(contents_->match(contents_->fingerprint(a.data(), 4096, Fingerprint::Extent::kAll),
                                b.data(), 4096));
}

TEST_P(DeviceContentsTest, OtherSizesAreOtherContents) {
  const std::vector<unsigned char> zeros(64, 0);
  EXPECT_NE(contents_->checksum(zeros.data(), 40), contents_->checksum(zeros.data(), 48));
  EXPECT_FALSE(contents_->match(contents_->fingerprint(zeros.data(), 40, Fingerprint::Extent::kAll),
                                zeros.data(), 48));
}

// Of 1 MiB lines of 64 bytes may be looked at alone, 4112 bytes apart at most (fingerprint.hpp).
TEST_P(DeviceContentsTest, ASampleSeesEachChangeAsLongAsItsGaps) {
  const auto a = bytes(1 << 20);
  const Fingerprint print = contents_->fingerprint(a.data(), 1 << 20, Fingerprint::Extent::kSample);
  for (std::size_t begin = 0; begin + 4112 <= a.size(); begin += 40'009) {
    auto b = a;
    for (std::size_t i = begin; i < begin + 4112; ++i) b[i] ^= 0x10;
    EXPECT_FALSE(contents_->match(print, b.data(), 1 << 20)) << begin;
  }
}

// Two runs of a kernel into memory that was filled with 7 and with 0 before: it leaves 100 bytes as
// they are. They were other ones in the original.
struct FilledRuns {
  static constexpr unsigned char kFirst = 7, kSecond = 0;
  static constexpr std::size_t kBytes = 10'000, kHole = 5000, kHoleEnd = 5100;

  FilledRuns() : first(bytes(kBytes)), second(first), original(first) {
    for (std::size_t i = kHole; i < kHoleEnd; ++i) {
      first[i] = kFirst;
      second[i] = kSecond;
      original[i] = static_cast<unsigned char>(3 * i + 1);
    }
  }
  bool equal(const DeviceContents& contents, const std::vector<unsigned char>& to) const {
    return contents.equalWhereWritten(to.data(), {first.data(), kFirst}, {second.data(), kSecond},
                                      kBytes);
  }

  std::vector<unsigned char> first, second, original;
};

TEST_P(DeviceContentsTest, BytesThatKeepBothPatternsDoNotCount) {
  const FilledRuns runs;
  EXPECT_TRUE(runs.equal(*contents_, runs.original));
  EXPECT_TRUE(runs.equal(*contents_, runs.first)) << "it repeats";
  for (const std::size_t at :
       {std::size_t{0}, FilledRuns::kHole - 1, FilledRuns::kHoleEnd, FilledRuns::kBytes - 1}) {
    auto other = runs.original;
    other[at] ^= 1;
    EXPECT_FALSE(runs.equal(*contents_, other)) << at;
  }
}

TEST_P(DeviceContentsTest, WhatDiffersBetweenTheRunsDoesNotRepeat) {
  FilledRuns runs;
  runs.second[FilledRuns::kHole + 50] = 9;  // neither pattern: it was written, once
  EXPECT_FALSE(runs.equal(*contents_, runs.first));
  EXPECT_FALSE(runs.equal(*contents_, runs.original));
}

// A written byte may have the pattern by chance: in one of the runs, not in both.
TEST_P(DeviceContentsTest, AWrittenByteThatLooksLikeOnePatternCounts) {
  FilledRuns runs;
  runs.first[100] = runs.second[100] = FilledRuns::kFirst;
  auto other = runs.original;
  other[100] = FilledRuns::kFirst + 1;
  EXPECT_FALSE(runs.equal(*contents_, other));
}

// With one pattern for both every byte counts.
TEST_P(DeviceContentsTest, OnePatternTellsNothing) {
  const FilledRuns runs;
  const FilledRun run{runs.first.data(), FilledRuns::kFirst};
  const auto copy = runs.first;
  const FilledRun again{copy.data(), FilledRuns::kFirst};
  EXPECT_FALSE(contents_->equalWhereWritten(runs.original.data(), run, again, FilledRuns::kBytes));
  EXPECT_TRUE(contents_->equalWhereWritten(runs.first.data(), run, again, FilledRuns::kBytes));
}

TEST_P(DeviceContentsTest, CopiesSoManyBytes) {
  const auto from = bytes(1001);
  std::vector<unsigned char> to(1002, 0xee);
  contents_->copy(to.data(), from.data(), 1001);
  EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
  EXPECT_EQ(to.back(), 0xee);
}

}  // namespace ebbtide::plugin
