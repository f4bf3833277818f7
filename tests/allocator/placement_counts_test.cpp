// What each outcome counts for.
#include "placement_counts.hpp"

#include <gtest/gtest.h>

namespace ebbtide::allocator {
namespace {

void expectCounts(const PlacementCounts& counts, const PlacementCounts& expected) {
  EXPECT_EQ(counts.placed, expected.placed);
  EXPECT_EQ(counts.deviations, expected.deviations);
  EXPECT_EQ(counts.late, expected.late);
  EXPECT_EQ(counts.lent, expected.lent);
  EXPECT_EQ(counts.bytes.requested, expected.bytes.requested);
  EXPECT_EQ(counts.bytes.placed, expected.bytes.placed);
  EXPECT_EQ(counts.bytes.misplaced, expected.bytes.misplaced);
  EXPECT_EQ(counts.bytes.short_of_pages, expected.bytes.short_of_pages);
}

TEST(PlacementCountsTest, EachOutcomeHasItsBytes) {
  PlacementCounts counts;
  counts.add({PlacementOutcome::kPlaced, /*deviated=*/false, 1});
  counts.add({PlacementOutcome::kPlaced, /*deviated=*/true, 10});
  counts.add({PlacementOutcome::kElsewhere, /*deviated=*/false, 100});
  counts.add({PlacementOutcome::kUnforeseen, /*deviated=*/true, 1000});
  counts.add({PlacementOutcome::kTaken, /*deviated=*/false, 10'000});
  counts.add({PlacementOutcome::kShort, /*deviated=*/false, 100'000});
  // 1000 and 10,000 are misplaced; what is foreseen upstream is in the first sum alone.
  expectCounts(
      counts,
      {.placed = 2,
       .deviations = 2,
       .late = 2,
       .lent = 0,
       .bytes = {
           .requested = 111'111, .placed = 11, .misplaced = 11'000, .short_of_pages = 100'000}});
}

TEST(PlacementCountsTest, WhatIsTakenBackWasNeverCounted) {
  for (const auto outcome :
       {PlacementOutcome::kPlaced, PlacementOutcome::kElsewhere, PlacementOutcome::kUnforeseen,
        PlacementOutcome::kTaken, PlacementOutcome::kShort}) {
    PlacementCounts counts;
    counts.add({outcome, /*deviated=*/true, 4096});
    EXPECT_EQ(counts.bytes.requested, 4096);
    counts.takeBack({outcome, /*deviated=*/true, 4096});
    expectCounts(counts, {});
  }
}

TEST(PlacementCountsTest, TheCountsOfLanesAdd) {
  const PlacementCounts one{
      .placed = 1,
      .deviations = 2,
      .late = 3,
      .lent = 4,
      .bytes = {.requested = 5, .placed = 6, .misplaced = 7, .short_of_pages = 8}};
  PlacementCounts sum = one;
  sum += one;
  expectCounts(sum,
               {.placed = 2,
                .deviations = 4,
                .late = 6,
                .lent = 8,
                .bytes = {.requested = 10, .placed = 12, .misplaced = 14, .short_of_pages = 16}});
}

}  // namespace
}  // namespace ebbtide::allocator
