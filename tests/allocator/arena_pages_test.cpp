// Pages of one arena, without a resource around it: spied on, and refused.
#include "arena_pages.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "fakes.hpp"

namespace ebbtide::allocator::test {
namespace {

class ArenaPagesTest : public testing::Test {
 protected:
  explicit ArenaPagesTest(Bytes page_bytes = kPage) : space_(page_bytes) {}
  ~ArenaPagesTest() override {
    EXPECT_EQ(space_.badCalls(), 0);
    EXPECT_EQ(space_.mappedBytes(), tracker_.mappedBytes());
  }

  // Below 32 MiB of room no page is mapped beyond what a place needs.
  void limit(Bytes units) { tracker_.setBudgetBytes(units * kUnitBytes); }
  PlacementOutcome take(const UnitRange& place) {
    const PlacementOutcome outcome = pages_.mapAndTake(place);
    if (outcome == PlacementOutcome::kPlaced) {
      EXPECT_TRUE(space_.covers(addresses_.addressOf(place.begin), place.units * kUnitBytes));
    }
    return outcome;
  }
  void free(std::uint32_t begin) {
    EXPECT_EQ(lane_.hold()->units.free(begin), ArenaUnits::Freed::kReleased);
  }
  void mapFree(const UnitRange& place) {
    ASSERT_EQ(take(place), PlacementOutcome::kPlaced);
    free(place.begin);
  }
  Bytes mappedUnits() const { return space_.mappedBytes() / kUnitBytes; }
  Bytes freeUnits() const { return pages_.freeBytes() / kUnitBytes; }

  SpySpace space_;
  FakeEvents events_;
  BudgetTracker tracker_;
  PoolResource upstream_{space_, events_, tracker_, PoolResource::Options{}};
  Reservation addresses_{space_, Reservation::kLeastBytes};
  LockedLane lane_{tracker_, addresses_.units()};
  Bytes asked_elsewhere_ = 0;
  ArenaPages pages_{space_,     tracker_, upstream_,
                    addresses_, lane_,    [this](Bytes bytes) { asked_elsewhere_ += bytes; }};
};

class HugeArenaPagesTest : public ArenaPagesTest {
 protected:
  HugeArenaPagesTest() : ArenaPagesTest(kHugePage) {}
};

TEST_F(ArenaPagesTest, TheTopIsNoHigherThanTheAddresses) {
  pages_.raiseTop(10);
  EXPECT_EQ(lane_.hold()->units.top(), 10U);
  pages_.raiseTop(UINT32_MAX);
  EXPECT_EQ(lane_.hold()->units.top(), 128 * kMiB / kUnitBytes);
}

TEST_F(ArenaPagesTest, APlaceGetsThePagesThatItLacksAndNoOther) {
  limit(1000);
  pages_.raiseTop(2000);
  EXPECT_EQ(take({600, 100}), PlacementOutcome::kPlaced);
  EXPECT_EQ(mappedUnits(), 100);
  EXPECT_EQ(take({700, 50}), PlacementOutcome::kPlaced);
  free(600);
  EXPECT_EQ(take({650, 50}), PlacementOutcome::kPlaced);  // all of it is mapped
  EXPECT_EQ(space_.maps, 2);
  EXPECT_EQ(take({590, 60}), PlacementOutcome::kPlaced);  // [590, 600) is not
  EXPECT_EQ(mappedUnits(), 160);
  EXPECT_EQ(freeUnits(), 0);
}

// 512 units at once where there is room for many.
TEST_F(ArenaPagesTest, WithoutABudgetPagesAreMappedInSteps) {
  pages_.raiseTop(2000);
  EXPECT_EQ(take({600, 100}), PlacementOutcome::kPlaced);
  EXPECT_EQ(space_.maps, 1);
  EXPECT_EQ(mappedUnits(), 512);  // [512, 1024)
  EXPECT_EQ(freeUnits(), 412);
  EXPECT_EQ(take({1000, 100}), PlacementOutcome::kPlaced);
  EXPECT_EQ(mappedUnits(), 1024);
}

// A page is 512 units: [600, 700) takes one, and keeps it until the block is gone.
TEST_F(HugeArenaPagesTest, APageGoesAsAWhole) {
  pages_.raiseTop(2000);
  EXPECT_EQ(lane_.hold()->units.top(), 2048U);
  EXPECT_EQ(take({600, 100}), PlacementOutcome::kPlaced);
  EXPECT_EQ(mappedUnits(), 512);
  EXPECT_EQ(freeUnits(), 0);
  EXPECT_EQ(pages_.unmapFree(1), 0);
  free(600);
  EXPECT_EQ(freeUnits(), 512);
  EXPECT_EQ(pages_.unmapFree(1), kHugePage);
  EXPECT_EQ(mappedUnits(), 0);
  EXPECT_EQ(events_.synchronizes, 1);
}

TEST_F(ArenaPagesTest, WhatComesBeforeItsPagesAreMappedIsInTheWay) {
  limit(1000);
  pages_.raiseTop(100);
  EXPECT_EQ(take({20, 20}), PlacementOutcome::kPlaced);
  const int maps = space_.maps;
  EXPECT_EQ(take({0, 30}), PlacementOutcome::kTaken);
  EXPECT_EQ(space_.maps, maps);
}

// [10, 20) is mapped. Of the two holes of [0, 30) the system has pages for one: that one stays.
TEST_F(ArenaPagesTest, WhatWasMappedForAPlaceThatGotNotAllIsFree) {
  limit(1000);
  pages_.raiseTop(100);
  mapFree({10, 10});
  space_.capacity_bytes = 20 * kUnitBytes;
  EXPECT_EQ(take({0, 30}), PlacementOutcome::kShort);
  EXPECT_EQ(mappedUnits(), 20);
  EXPECT_EQ(freeUnits(), 20);
  EXPECT_EQ(take({0, 20}), PlacementOutcome::kPlaced);
}

// 150 units of budget, 100 of others: 30 of the 80 are asked for elsewhere, in vain.
TEST_F(ArenaPagesTest, WhatTheBudgetLacksIsAskedForElsewhere) {
  limit(150);
  pages_.raiseTop(100);
  ASSERT_TRUE(tracker_.debit(100 * kUnitBytes));
  EXPECT_EQ(take({0, 80}), PlacementOutcome::kShort);
  EXPECT_EQ(asked_elsewhere_, 30 * kUnitBytes);
  EXPECT_EQ(mappedUnits(), 0);
  EXPECT_EQ(take({0, 50}), PlacementOutcome::kPlaced);
  EXPECT_EQ(asked_elsewhere_, 30 * kUnitBytes);
  tracker_.credit(100 * kUnitBytes);
}

// What may go over the budget does so in the pool.
TEST_F(ArenaPagesTest, NoPlaceIsMappedOverTheBudget) {
  limit(10);
  pages_.raiseTop(100);
  const BudgetTracker::OverrunScope overrun;
  EXPECT_EQ(take({0, 20}), PlacementOutcome::kShort);
  EXPECT_EQ(take({0, 10}), PlacementOutcome::kPlaced);
  EXPECT_EQ(tracker_.overruns(), 0);
}

// [0, 250) is free. The step takes A, [0, 100), and 20 blocks in it, before B, [100, 250). With the
// next 4 or 16 blocks B's pages are left, with 64 none are: so 50 of B's go.
TEST_F(ArenaPagesTest, ThePagesThatTheStepNeedsLastGoFirst) {
  limit(1000);
  pages_.raiseTop(250);
  mapFree({0, 250});
  auto sequence = std::make_shared<PlacedSequence>();
  sequence->blocks = std::vector<PlacedBlock>(22, {1, 0});
  sequence->blocks.front() = {100, 0};
  sequence->blocks.back() = {150, 100};
  std::shared_ptr<const PlacedSequence> step = sequence;
  lane_.hold()->step.begin(step, /*this_thread_only=*/false);
  std::vector<UnitRange> unmapped;
  space_.on_unmap = [&](void* begin, Bytes bytes) {
    unmapped.push_back({addresses_.unitOf(begin), static_cast<std::uint32_t>(bytes / kUnitBytes)});
  };
  EXPECT_EQ(pages_.unmapFree(50 * kUnitBytes), 50 * kUnitBytes);
  space_.on_unmap = nullptr;
  ASSERT_EQ(unmapped.size(), 1U);
  EXPECT_EQ(unmapped[0].begin, 100U);
  EXPECT_EQ(unmapped[0].units, 50U);
}

TEST_F(ArenaPagesTest, PagesThatTheDeviceMayUseStillStay) {
  limit(1000);
  pages_.raiseTop(100);
  mapFree({0, 100});
  events_.stuck = true;
  testing::internal::CaptureStderr();
  EXPECT_EQ(pages_.unmapFree(100 * kUnitBytes), 0);
  EXPECT_NE(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(mappedUnits(), 100);
  EXPECT_EQ(freeUnits(), 100);
  EXPECT_EQ(take({0, 100}), PlacementOutcome::kPlaced);
  EXPECT_EQ(space_.maps, 1);
}

TEST_F(ArenaPagesTest, WhatIsMappedIsABlockOrFree) {
  limit(1000);
  pages_.raiseTop(100);
  mapFree({10, 30});
  EXPECT_EQ(take({15, 5}), PlacementOutcome::kPlaced);
  MappedExtents extents;
  pages_.describe(Stream{7}, extents);
  ASSERT_EQ(extents.size(), 3U);  // 5 free, 5 live, 20 free
  EXPECT_EQ(extents[0].begin, addresses_.addressOf(10));
  EXPECT_FALSE(extents[0].live);
  EXPECT_EQ(extents[1].begin, addresses_.addressOf(15));
  EXPECT_EQ(extents[1].bytes, 5 * kUnitBytes);
  EXPECT_TRUE(extents[1].live);
  EXPECT_EQ(extents[1].stream, Stream{7});
  EXPECT_EQ(extents[2].bytes, 20 * kUnitBytes);
}

}  // namespace
}  // namespace ebbtide::allocator::test
