#include "memory/block_watch.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ebbtide::plugin {
namespace {

class BlockWatchTest : public testing::Test {
 protected:
  static constexpr ByteRange kAll{0, 8};

  ~BlockWatchTest() override {  // the table of blocks is the process's
    value_.endWatch(block());
    value_.endGuard(block());
  }

  void* block() { return bytes_.data(); }
  Fingerprint print() { return Fingerprint::of(block(), kAll.bytes()); }
  void write() { bytes_[3] = 9; }
  bool keptAtItsFree() { return droppedBlocks().keepIfWritten(block()); }

  std::array<unsigned char, 8> bytes_ = {1, 2, 3, 4};
  BlockWatch value_;
};

TEST_F(BlockWatchTest, NothingIsWatchedAtFirst) {
  EXPECT_FALSE(value_.watched());
  EXPECT_FALSE(value_.guarded());
  EXPECT_EQ(value_.endWatch(block()), nullptr);
  EXPECT_EQ(value_.endGuard(block()), nullptr);
  EXPECT_FALSE(keptAtItsFree());
}

TEST_F(BlockWatchTest, AWatchedBlockThatWasWrittenComesBack) {
  EXPECT_TRUE(value_.watch(block(), kAll, print()));
  EXPECT_TRUE(value_.watched());
  write();
  EXPECT_TRUE(keptAtItsFree());
  EXPECT_EQ(value_.endGuard(block()), nullptr);  // it is none, and changes nothing
  EXPECT_TRUE(value_.watched());
  EXPECT_EQ(value_.endWatch(block()), block());
  EXPECT_FALSE(value_.watched());
  EXPECT_EQ(value_.endWatch(block()), nullptr);  // once
}

TEST_F(BlockWatchTest, AWatchedBlockThatWasNotWrittenGoes) {
  value_.watch(block(), kAll, print());
  EXPECT_FALSE(keptAtItsFree());
  EXPECT_EQ(value_.endWatch(block()), nullptr);
  EXPECT_FALSE(value_.watched());
}

TEST_F(BlockWatchTest, AGuardedBlockComesBackWrittenOrNot) {
  EXPECT_TRUE(value_.guard(block()));
  EXPECT_TRUE(value_.guarded());
  EXPECT_TRUE(keptAtItsFree());
  EXPECT_EQ(value_.endWatch(block()), nullptr);
  EXPECT_EQ(value_.endGuard(block()), block());
  EXPECT_FALSE(value_.guarded());
}

TEST_F(BlockWatchTest, ABlockThatWasNotFreedDoesNotComeBack) {
  value_.guard(block());
  EXPECT_EQ(value_.endGuard(block()), nullptr);
  EXPECT_FALSE(keptAtItsFree());  // nobody has an eye on it
}

// A second eye would take the first one's place among the blocks.
TEST_F(BlockWatchTest, OneEyeIsKeptOnABlock) {
  value_.guard(block());
  EXPECT_FALSE(value_.watch(block(), kAll, print()));
  EXPECT_TRUE(value_.guarded());
  EXPECT_TRUE(keptAtItsFree());  // not written: by the guard
  EXPECT_FALSE(value_.guard(block()));
  value_.endGuard(block());
  value_.watch(block(), kAll, print());
  EXPECT_FALSE(value_.guard(block()));
  EXPECT_FALSE(value_.watch(block(), kAll, print()));
  EXPECT_TRUE(value_.watched());
}

TEST_F(BlockWatchTest, WhatAnotherValueHasAnEyeOnIsNotGuarded) {
  BlockWatch other;
  other.watch(block(), kAll, print());
  EXPECT_FALSE(value_.guard(block()));
  EXPECT_FALSE(value_.guarded());
  other.endWatch(block());
  EXPECT_TRUE(value_.guard(block()));
}

}  // namespace
}  // namespace ebbtide::plugin
