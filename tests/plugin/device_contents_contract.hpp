// What every DeviceContents has to pass. A test of one includes this and instantiates it with a
// function that makes one which takes bytes of the host, whatever it does to bring them over.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "device_contents.hpp"

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

TEST_P(DeviceContentsTest, CopiesSoManyBytes) {
  const auto from = bytes(1001);
  std::vector<unsigned char> to(1002, 0xee);
  contents_->copy(to.data(), from.data(), 1001);
  EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
  EXPECT_EQ(to.back(), 0xee);
}

}  // namespace ebbtide::plugin
