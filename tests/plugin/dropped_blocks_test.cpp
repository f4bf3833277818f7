#include "memory/dropped_blocks.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "device/fingerprint.hpp"

namespace ebbtide::plugin {
namespace {

class DroppedBlocksTest : public testing::Test {
 protected:
  void watch() {
    ticket_ =
        blocks_.watch(memory_.data(), {0, static_cast<std::int64_t>(memory_.size())},
                      Fingerprint::of(memory_.data(), static_cast<std::int64_t>(memory_.size())));
  }

  std::vector<unsigned char> memory_ = std::vector<unsigned char>(1000, 7);
  DroppedBlocks blocks_;
  DroppedBlocks::Ticket ticket_ = 0;
};

TEST_F(DroppedBlocksTest, WhatWasNotWrittenIsFreed) {
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));  // nobody watches it
  watch();
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));
  EXPECT_EQ(blocks_.withdraw(memory_.data(), ticket_), nullptr);
}

TEST_F(DroppedBlocksTest, WhatWasWrittenIsKeptOnceAndComesBack) {
  watch();
  memory_[500] = 8;
  EXPECT_TRUE(blocks_.keepIfWritten(memory_.data()));
  EXPECT_EQ(blocks_.withdraw(memory_.data(), ticket_), memory_.data());
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));  // its new owner frees it
}

TEST_F(DroppedBlocksTest, WhatTheValueDoesNotCoverMayBeWritten) {
  const ByteRange covered{.begin = 100, .end = 104};
  const auto watched = [this, &covered] {
    blocks_.watch(memory_.data(), covered, Fingerprint::of(memory_.data() + 100, 4));
  };
  watched();
  memory_[99] = memory_[104] = 8;
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));
  watched();
  memory_[103] = 8;
  EXPECT_TRUE(blocks_.keepIfWritten(memory_.data()));
}

TEST_F(DroppedBlocksTest, AWatchThatEndedKeepsNothing) {
  watch();
  memory_[0] = 8;
  EXPECT_EQ(blocks_.withdraw(memory_.data(), ticket_), nullptr);  // the program holds it still
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));
}

TEST_F(DroppedBlocksTest, ABlockUsedAgainIsWatchedAnew) {
  watch();
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));
  memory_[999] = 9;  // another value, in the same place
  watch();
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));
}

TEST_F(DroppedBlocksTest, ATicketEndsNoLaterWatchOfThePlace) {
  watch();
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));
  const auto first = ticket_;
  watch();  // another value, in the same place
  EXPECT_EQ(blocks_.withdraw(memory_.data(), first), nullptr);
  memory_[0] = 8;
  EXPECT_TRUE(blocks_.keepIfWritten(memory_.data()));
  EXPECT_EQ(blocks_.withdraw(memory_.data(), first), nullptr);  // nor takes its block
  EXPECT_EQ(blocks_.withdraw(memory_.data(), ticket_), memory_.data());
}

// Frees and watches from several threads at once: each block is kept or freed, never both.
// Written or not: a replay reads it later.
TEST_F(DroppedBlocksTest, AHeldBlockIsKeptWhateverItsContents) {
  const auto ticket = blocks_.hold(memory_.data());
  ASSERT_NE(ticket, 0u);
  EXPECT_TRUE(blocks_.keepIfWritten(memory_.data()));
  EXPECT_EQ(blocks_.withdraw(memory_.data(), ticket), memory_.data());
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));
}

TEST_F(DroppedBlocksTest, AHeldBlockThatNobodyFreedDoesNotComeBack) {
  const auto ticket = blocks_.hold(memory_.data());
  EXPECT_EQ(blocks_.withdraw(memory_.data(), ticket), nullptr);
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));
}

TEST_F(DroppedBlocksTest, WhatSomebodyHasAnEyeOnIsNotHeld) {
  watch();
  EXPECT_EQ(blocks_.hold(memory_.data()), 0u);
  EXPECT_FALSE(blocks_.keepIfWritten(memory_.data()));  // that watch has ended, unwritten
  EXPECT_NE(blocks_.hold(memory_.data()), 0u);
  EXPECT_EQ(blocks_.hold(memory_.data()), 0u);
}

TEST(DroppedBlocks, ServesThreads) {
  DroppedBlocks blocks;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&blocks] {
      std::vector<unsigned char> memory(64, 1);
      for (int i = 0; i < 2000; ++i) {
        const auto ticket =
            blocks.watch(memory.data(), {0, 64}, Fingerprint::of(memory.data(), 64));
        const bool write = i % 3 == 0;
        if (write) ++memory[5];
        EXPECT_EQ(blocks.keepIfWritten(memory.data()), write);
        EXPECT_EQ(blocks.withdraw(memory.data(), ticket) != nullptr, write);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ebbtide::plugin
