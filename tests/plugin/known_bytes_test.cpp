#include "memory/known_bytes.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kBytes = 64;

Fingerprint printOf(std::uint64_t contents) {
  return {Checksum{contents, 0}, Fingerprint::Extent::kAll};
}

TEST(KnownBytes, AllIsKnownOfWhatComesFromOutside) {
  const KnownBytes value(kBytes);
  EXPECT_EQ(value.covered(), (ByteRange{0, kBytes}));
  EXPECT_FALSE(value.uninitialised());
  EXPECT_FALSE(value.print().has_value());
  EXPECT_FALSE(value.checksum().has_value());
}

TEST(KnownBytes, AnOpsResultsCoverWhatTheyLookAt) {
  KnownBytes value(kBytes);
  value.give({8, 16}, false);
  EXPECT_FALSE(value.coverAlso({10, 12}));  // it does
  EXPECT_FALSE(value.coverAlso({}));        // a result of no elements
  EXPECT_TRUE(value.coverAlso({32, 40}));
  EXPECT_EQ(value.covered(), (ByteRange{8, 40}));
}

// Its print is of less then: the caller takes another one, and until then the old one is there.
TEST(KnownBytes, APrintOutlivesWhatItIsOf) {
  KnownBytes value(kBytes);
  value.give({0, 8}, false);
  value.notePrint(printOf(1));
  EXPECT_TRUE(value.coverAlso({8, 16}));
  EXPECT_EQ(value.print(), printOf(1));
  value.notePrint(printOf(2));
  EXPECT_EQ(value.print(), printOf(2));
  value.forgetPrint();
  EXPECT_FALSE(value.print().has_value());
}

TEST(KnownBytes, WhatIsUninitialisedIsFilledOnce) {
  KnownBytes value(kBytes);
  value.give({0, 8}, true);
  EXPECT_TRUE(value.uninitialised());
  EXPECT_TRUE(value.fill(kBytes));
  EXPECT_FALSE(value.uninitialised());
  EXPECT_EQ(value.covered(), (ByteRange{0, kBytes}));
  EXPECT_FALSE(value.fill(kBytes));
}

TEST(KnownBytes, WhatAnOpGaveIsNotFilled) {
  KnownBytes value(kBytes);
  value.give({0, 8}, false);
  EXPECT_FALSE(value.fill(kBytes));
  EXPECT_EQ(value.covered(), (ByteRange{0, 8}));
}

// Dropped, computed again and dropped again: with other bytes it was written meanwhile.
TEST(KnownBytes, TheFirstChecksumIsTheOne) {
  KnownBytes value(kBytes);
  EXPECT_TRUE(value.isSummedAs({1, 2}));
  EXPECT_FALSE(value.checksum().has_value());  // to ask leaves none
  EXPECT_TRUE(value.leaveChecksum({1, 2}));
  EXPECT_TRUE(value.leaveChecksum({1, 2}));
  EXPECT_FALSE(value.isSummedAs({1, 3}));
  EXPECT_FALSE(value.leaveChecksum({1, 3}));
  EXPECT_EQ(*value.checksum(), (Checksum{1, 2}));
}

}  // namespace
}  // namespace ebbtide::plugin
