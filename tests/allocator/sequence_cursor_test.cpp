// The cursor over sequences of a few blocks.
#include "sequence_cursor.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace ebbtide::allocator {
namespace {

class SequenceCursorTest : public testing::Test {
 protected:
  // Blocks of these units, one after the other.
  static std::shared_ptr<const PlacedSequence> sequenceOf(
      const std::vector<std::uint32_t>& units, std::vector<std::uint32_t> phase_begins = {0}) {
    auto sequence = std::make_shared<PlacedSequence>();
    for (const std::uint32_t block : units) {
      sequence->blocks.push_back({block, sequence->height_units});
      sequence->height_units += block;
    }
    sequence->phase_begins = std::move(phase_begins);
    return sequence;
  }
  void begin(std::shared_ptr<const PlacedSequence> sequence, bool this_thread_only = false) {
    cursor_.begin(sequence, this_thread_only);
  }
  // Where the expected block of this size lies; -1: none is near.
  std::int64_t offsetOf(std::uint32_t units) {
    const SequenceCursor::Expected expected = cursor_.expect(units);
    return expected.block != nullptr ? std::int64_t{expected.block->offset_units} : -1;
  }
  std::vector<std::uint32_t> next(std::size_t count) const {
    std::vector<std::uint32_t> units;
    cursor_.forEachNext(count, [&](const PlacedBlock& block) { units.push_back(block.units); });
    return units;
  }

  SequenceCursor cursor_;
};

TEST_F(SequenceCursorTest, EachBlockIsExpectedInItsTurn) {
  begin(sequenceOf({10, 11, 10}));
  EXPECT_EQ(offsetOf(10), 0);
  EXPECT_EQ(offsetOf(11), 10);
  const SequenceCursor::Expected last = cursor_.expect(10);
  ASSERT_NE(last.block, nullptr);
  EXPECT_EQ(last.block->offset_units, 21U);
  EXPECT_FALSE(last.deviated);
  EXPECT_FALSE(cursor_.firstDeviation().has_value());
  EXPECT_EQ(offsetOf(10), -1);  // all have come
}

TEST_F(SequenceCursorTest, WhatIsLeftOutIsPassed) {
  begin(sequenceOf({10, 11, 12}));
  EXPECT_EQ(offsetOf(10), 0);
  const SequenceCursor::Expected expected = cursor_.expect(12);
  ASSERT_NE(expected.block, nullptr);
  EXPECT_EQ(expected.block->offset_units, 21U);
  EXPECT_TRUE(expected.deviated);
  EXPECT_EQ(expected.move.from, 1U);
  EXPECT_EQ(expected.move.to, 3U);
  EXPECT_EQ(offsetOf(11), -1);
  const auto& first = cursor_.firstDeviation();  // of the two
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->block, 1);
  EXPECT_EQ(first->expected_bytes, 11 * kUnitBytes);
  EXPECT_EQ(first->requested_bytes, 12 * kUnitBytes);
}

// Sizes 10, 11, ...: from the first one, 25 is the 16th, 26 the 17th.
TEST_F(SequenceCursorTest, SixteenBlocksAreLookedAt) {
  std::vector<std::uint32_t> units;
  for (std::uint32_t i = 0; i < 40; ++i) units.push_back(10 + i);
  begin(sequenceOf(units));
  EXPECT_EQ(offsetOf(26), -1);
  EXPECT_EQ(next(1), std::vector<std::uint32_t>{10});  // it stayed
  EXPECT_NE(offsetOf(25), -1);
  EXPECT_EQ(next(1), std::vector<std::uint32_t>{26});
}

TEST_F(SequenceCursorTest, WhatIsTakenBackIsExpectedAgainUnlessTheStepWentOn) {
  begin(sequenceOf({10, 11, 10, 11}));
  const SequenceCursor::Expected first = cursor_.expect(10);
  cursor_.takeBack(first.move);
  EXPECT_EQ(offsetOf(10), 0);
  EXPECT_EQ(offsetOf(11), 10);
  cursor_.takeBack(first.move);
  EXPECT_EQ(next(1), std::vector<std::uint32_t>{10});  // the third
  EXPECT_EQ(offsetOf(10), 21);
}

TEST_F(SequenceCursorTest, APhaseSetsTheCursor) {
  begin(sequenceOf({10, 11, 12}, {0, 2}));
  EXPECT_EQ(offsetOf(10), 0);
  cursor_.beginPhase(1);
  EXPECT_EQ(offsetOf(12), 21);
  cursor_.beginPhase(7);  // no such phase
  EXPECT_EQ(offsetOf(10), -1);
  cursor_.beginPhase(0);
  EXPECT_EQ(offsetOf(10), 0);
}

TEST_F(SequenceCursorTest, AStepOfOneThreadIsNotFollowedByOthers) {
  EXPECT_FALSE(cursor_.isFollowedHere());
  begin(sequenceOf({10, 11}, {0, 1}), /*this_thread_only=*/true);
  EXPECT_TRUE(cursor_.isForeseen());
  EXPECT_TRUE(cursor_.isFollowedHere());
  std::thread([&] {
    EXPECT_FALSE(cursor_.isFollowedHere());
    cursor_.beginPhase(1);
  }).join();
  EXPECT_EQ(next(1), std::vector<std::uint32_t>{10});
  begin(sequenceOf({10}));
  std::thread([&] { EXPECT_TRUE(cursor_.isFollowedHere()); }).join();
  begin(nullptr);
  EXPECT_FALSE(cursor_.isForeseen());
  cursor_.beginPhase(0);
  EXPECT_TRUE(next(3).empty());
}

TEST_F(SequenceCursorTest, AnotherStepBeginsAtItsFirstBlockWithoutDeviations) {
  auto sequence = sequenceOf({10, 11});
  const std::weak_ptr<const PlacedSequence> before = sequence;
  begin(std::move(sequence));
  EXPECT_EQ(offsetOf(12), -1);
  EXPECT_EQ(offsetOf(10), 0);
  EXPECT_TRUE(cursor_.firstDeviation().has_value());
  auto other = sequenceOf({20});
  cursor_.begin(other, /*this_thread_only=*/false);
  EXPECT_EQ(other, before.lock());  // for the caller to drop
  EXPECT_FALSE(cursor_.firstDeviation().has_value());
  EXPECT_EQ(offsetOf(20), 0);
}

TEST_F(SequenceCursorTest, TheNextBlocksGoOnWithTheNextStep) {
  begin(sequenceOf({10, 11, 12}));
  EXPECT_EQ(offsetOf(11), 10);
  EXPECT_EQ(next(2), (std::vector<std::uint32_t>{12, 10}));
  EXPECT_EQ(next(100), (std::vector<std::uint32_t>{12, 10, 11}));  // each once
  begin(sequenceOf({}));
  EXPECT_TRUE(next(3).empty());
}

}  // namespace
}  // namespace ebbtide::allocator
