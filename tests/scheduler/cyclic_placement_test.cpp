#include "ebbtide/scheduler/cyclic_placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

namespace ebbtide::scheduler {
namespace {

CyclicPlacementProblem cycleOf(std::int64_t period, std::vector<Buffer> buffers) {
  return {.problem = {.buffers = std::move(buffers)}, .period = period};
}

// A gradient lives over the end, from 8 to 2; an activation between, from 3 to 7.
//   0  2 3      7 8  10
//   ███  ░░░░░░   ███       the larger one alone is the load: 6, not 4 + 6
TEST(CyclicPlacementTest, WhatLivesOverTheEndLeavesItsRoomInBetween) {
  const auto cycle = cycleOf(10, {{8, 12, 4}, {3, 7, 6}});
  EXPECT_EQ(cyclicLoad(cycle), 6);
  const Placement placement = placeInCycle(cycle);
  EXPECT_EQ(placement.height_bytes, 6);
  EXPECT_TRUE(placement.optimal);
  EXPECT_EQ(validateInCycle(cycle, placement), std::nullopt);
}

// Two gradients, born at 6 and 8, both gone at 2. The activation from 1 to 7 meets both: the load
// is 2 + 3 + 4 at 1, and at 6 it is 2 + 4.
TEST(CyclicPlacementTest, WhatMeetsBothEndsLiesAboveThem) {
  const auto cycle = cycleOf(10, {{6, 12, 2}, {8, 12, 3}, {1, 7, 4}});
  EXPECT_EQ(cyclicLoad(cycle), 9);
  const Placement placement = placeInCycle(cycle);
  EXPECT_EQ(placement.height_bytes, 9);
  EXPECT_EQ(validateInCycle(cycle, placement), std::nullopt);
}

TEST(CyclicPlacementTest, WhatLivesTheWholeRoundMeetsAll) {
  // The first is there always: 5 + 7.
  const auto cycle = cycleOf(4, {{3, 7, 5}, {1, 2, 7}});
  EXPECT_EQ(cyclicLoad(cycle), 12);
  EXPECT_EQ(placeInCycle(cycle).height_bytes, 12);
}

// At 9, where the circle is cut, both live. The first is gone at 5, the second begins at 3: it
// cannot be above the one at its begin and below it at its end, so one of them keeps its place for
// the whole round.
TEST(CyclicPlacementTest, LongOnesThatCrossEachOtherStayWhereTheyAre) {
  const auto cycle = cycleOf(10, {{8, 15, 4}, {3, 12, 2}, {6, 7, 4}});
  const Placement placement = placeInCycle(cycle);
  EXPECT_EQ(validateInCycle(cycle, placement), std::nullopt);
  EXPECT_EQ(placement.height_bytes, 6);
}

TEST(CyclicPlacementTest, NothingToPlaceIsPlaced) {
  EXPECT_EQ(placeInCycle(cycleOf(1, {})).height_bytes, 0);
  EXPECT_EQ(placeInCycle(cycleOf(3, {{2, 4, 0}})).height_bytes, 0);
}

TEST(CyclicPlacementTest, TheValidatorSeesTheNextRound) {
  const auto cycle = cycleOf(10, {{8, 12, 4}, {1, 3, 2}});
  Placement placement = placeInCycle(cycle);
  ASSERT_EQ(validateInCycle(cycle, placement), std::nullopt);
  placement.offsets = {0, 0};  // both are there at 11, which is 1
  placement.height_bytes = 4;
  EXPECT_NE(validateInCycle(cycle, placement), std::nullopt);
}

TEST(CyclicPlacementTest, RefusesLifetimesOutsideOfTheRound) {
  EXPECT_THROW(placeInCycle(cycleOf(10, {{-1, 3, 1}})), std::invalid_argument);
  EXPECT_THROW(placeInCycle(cycleOf(10, {{10, 12, 1}})), std::invalid_argument);
  EXPECT_THROW(placeInCycle(cycleOf(10, {{5, 16, 1}})), std::invalid_argument);
  EXPECT_THROW(placeInCycle(cycleOf(10, {{5, 5, 1}})), std::invalid_argument);
  EXPECT_THROW(cyclicLoad(cycleOf(10, {{5, 16, 1}})), std::invalid_argument);
}

// The load by counting at each moment of the circle.
Bytes countedLoad(const CyclicPlacementProblem& cycle) {
  Bytes most = 0;
  for (std::int64_t moment = 0; moment < cycle.period; ++moment) {
    Bytes live = 0;
    for (const Buffer& buffer : cycle.problem.buffers) {
      const std::int64_t since = (moment - buffer.lower + cycle.period) % cycle.period;
      if (since < buffer.upper - buffer.lower) live += (buffer.bytes + 3) / 4 * 4;
    }
    most = std::max(most, live);
  }
  return most;
}

TEST(CyclicPlacementTest, RandomRoundsAreValidAndNotBelowTheirLoad) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    CyclicPlacementProblem cycle;
    cycle.period = 1 + static_cast<std::int64_t>(random() % 40);
    cycle.problem.alignment_bytes = 4;
    const std::size_t count = random() % 30;
    for (std::size_t i = 0; i < count; ++i) {
      const auto lower = static_cast<std::int64_t>(random() % cycle.period);
      const auto lifetime = 1 + static_cast<std::int64_t>(random() % cycle.period);
      cycle.problem.buffers.push_back({lower, lower + lifetime, static_cast<Bytes>(random() % 50)});
    }
    PlacementOptions options;
    options.deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    const Placement placement = placeInCycle(cycle, options);
    ASSERT_EQ(placement.offsets.size(), count);
    ASSERT_EQ(cyclicLoad(cycle), countedLoad(cycle)) << round;
    ASSERT_GE(placement.height_bytes, countedLoad(cycle)) << round;
    const auto fault = validateInCycle(cycle, placement);
    ASSERT_EQ(fault, std::nullopt) << round;
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
