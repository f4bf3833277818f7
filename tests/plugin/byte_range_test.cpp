#include "base/byte_range.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(ByteRange, HoldsWhatLiesWithinIt) {
  const ByteRange range{.begin = 8, .end = 24};
  EXPECT_EQ(range.bytes(), 16);
  EXPECT_TRUE(range.holds(range));
  EXPECT_TRUE(range.holds({.begin = 12, .end = 16}));
  EXPECT_FALSE(range.holds({.begin = 4, .end = 16}));
  EXPECT_FALSE(range.holds({.begin = 12, .end = 25}));
  EXPECT_TRUE(range.holds({}));  // nothing is read
  EXPECT_FALSE(ByteRange{}.holds(range));
}

TEST(ByteRange, TwoTogetherReachFromTheFirstByteToTheLast) {
  const ByteRange range{.begin = 8, .end = 24};
  EXPECT_EQ(range.with({.begin = 32, .end = 40}), (ByteRange{.begin = 8, .end = 40}));
  EXPECT_EQ(range.with({.begin = 0, .end = 10}), (ByteRange{.begin = 0, .end = 24}));
  EXPECT_EQ(range.with({}), range);  // and not from 0
  EXPECT_EQ(ByteRange{}.with(range), range);
}

}  // namespace
}  // namespace ebbtide::plugin
