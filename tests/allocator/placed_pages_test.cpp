// Pages of the arena: where places get them from, and who gets them after that.
#include <gtest/gtest.h>

#include <vector>

#include "placed_stack.hpp"

namespace ebbtide::allocator::test {
namespace {

class PlacedPagesTest : public PlacedResourceTest {};

TEST_F(PlacedPagesTest, PagesThatNoBlockLiesOnGoAndComeBackWithTheNextStep) {
  const auto sequence = placed({{100, 0}, {100, 100}, {100, 200}});
  begin(sequence);
  char* a = allocate(100);
  char* b = allocate(100);
  char* c = allocate(100);
  stack_->deallocate(a);
  stack_->deallocate(c);
  EXPECT_EQ(stack_.memory().statistics().cached_bytes, 200 * kUnitBytes);
  stack_.memory().releaseCached();
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 100 * kUnitBytes);
  char* upstream = allocate(100);  // nothing is mapped at its place
  EXPECT_FALSE(isPlaced(upstream));
  stack_->deallocate(upstream);
  begin(sequence);
  EXPECT_EQ(allocate(100), a);
  a[100 * kUnitBytes - 1] = 1;
  stack_->deallocate(a);
  stack_->deallocate(b);
}

// Of 300 units that are wanted, 250 fit; all that is placed below is served there.
TEST_F(PlacedPagesTest, ABudgetThatIsTooSmallForTheArenaStillServes) {
  stack_.limit(250 * kUnitBytes);
  begin(placed({{100, 0}, {100, 100}, {100, 200}}));
  char* a = allocate(100);
  char* b = allocate(100);
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 200 * kUnitBytes);
  EXPECT_NE(a, nullptr);
  EXPECT_NE(b, nullptr);
  EXPECT_EQ(allocate(100), nullptr);
  stack_->deallocate(a);
  stack_->deallocate(b);
}

// A step has mapped all 300 units of the budget in the arena. A block of 250 without a plan lies
// there as well, at the upper end. No page moves, and the next step takes its places again.
TEST_F(PlacedPagesTest, WhereTheBudgetIsShortTheArenaLendsItsFreePages) {
  stack_.limit(300 * kUnitBytes);
  const auto sequence = placed({{200, 0}, {100, 200}});
  const auto step = [&] {
    begin(sequence);
    char* a = allocate(200);
    char* b = allocate(100);
    EXPECT_TRUE(isPlaced(a));
    EXPECT_EQ(b, a + 200 * kUnitBytes);
    stack_->deallocate(a);
    stack_->deallocate(b);
    return a;
  };
  char* const arena = step();
  const int maps = stack_.spy().maps;
  const int unmaps = stack_.spy().unmaps;
  begin(nullptr);
  char* lent = allocate(250);
  EXPECT_EQ(lent, arena + 50 * kUnitBytes);
  lent[0] = lent[250 * kUnitBytes - 1] = 'l';
  EXPECT_EQ(stack_->blockBytes(lent), 250 * kUnitBytes);
  char* low = allocate(50);
  EXPECT_EQ(low, arena);
  stack_->deallocate(lent);
  stack_->deallocate(low);
  step();
  EXPECT_EQ(late(), 0);
  EXPECT_EQ(stack_.spy().maps, maps);
  EXPECT_EQ(stack_.spy().unmaps, unmaps);
  EXPECT_EQ(stack_.placed().placedBlocks(), 4);
  EXPECT_EQ(stack_.placed().lentBlocks(), 2);
  EXPECT_EQ(stack_.memory().statistics().allocations, 6);
}

// What is lent while its step runs would lie on places that are to come.
TEST_F(PlacedPagesTest, AStepBorrowsNothingOfItsOwnArena) {
  stack_.limit(300 * kUnitBytes);
  const auto sequence = placed({{100, 200}, {200, 0}, {100, 200}});
  begin(sequence);
  stack_->deallocate(allocate(100));
  stack_->deallocate(allocate(200));
  begin(sequence);
  char* other = allocate(90);  // not foreseen
  EXPECT_FALSE(isPlaced(other));
  stack_->deallocate(other);
  stack_->deallocate(allocate(100));
  stack_->deallocate(allocate(200));
  stack_->deallocate(allocate(100));
  char* next_batch = allocate(90);
  EXPECT_FALSE(isPlaced(next_batch));
  stack_->deallocate(next_batch);
}

// A place near the top of 1000 units; the budget holds a quarter.
TEST_F(PlacedPagesTest, APlaceHighUpNeedsPagesForItselfAlone) {
  stack_.limit(250 * kUnitBytes);
  begin(placed({{10, 990}, {20, 0}, {10, 500}}));
  char* a = allocate(10);
  char* b = allocate(20);
  char* c = allocate(10);
  EXPECT_TRUE(isPlaced(a));
  EXPECT_EQ(b, a - 990 * kUnitBytes);
  EXPECT_EQ(c, b + 500 * kUnitBytes);
  a[0] = a[10 * kUnitBytes - 1] = c[0] = c[10 * kUnitBytes - 1] = 'x';
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 40 * kUnitBytes);
  // Holes are in no extent: 20 units at 0, 10 at 500, 10 at 990.
  const MappedExtents extents = stack_.memory().mappedExtents();
  ASSERT_EQ(extents.size(), 3U);
  EXPECT_EQ(extents[1].begin, reinterpret_cast<std::byte*>(c));
  EXPECT_EQ(extents[1].bytes, 10 * kUnitBytes);
  freeAll({a, b, c});
}

// The system refuses pages once. The first block lies in the pool; what comes after it is placed.
TEST_F(PlacedPagesTest, APlaceThatGetsNoPagesSendsItsBlockAloneUpstream) {
  const auto sequence = placed({{100, 0}, {50, 100}, {60, 150}});
  begin(sequence);
  stack_.spy().refuse_maps = 1;
  stack_.limit(400 * kUnitBytes);
  char* a = allocate(100);
  EXPECT_FALSE(isPlaced(a));
  EXPECT_EQ(late(), 1);
  char* b = allocate(50);
  char* c = allocate(60);
  EXPECT_TRUE(isPlaced(b));
  EXPECT_EQ(c, b + 50 * kUnitBytes);
  const PlacedBytes bytes = stack_.placed().placedBytes();
  EXPECT_EQ(bytes.requested, 210 * kUnitBytes);
  EXPECT_EQ(bytes.placed, 110 * kUnitBytes);
  EXPECT_EQ(bytes.misplaced, 0);
  EXPECT_EQ(bytes.short_of_pages, 100 * kUnitBytes);
  freeAll({a, b, c});
  begin(sequence);
  char* next = allocate(100);
  EXPECT_EQ(next, b - 100 * kUnitBytes);
  stack_->deallocate(next);
}

// 300 units of budget; two places, 350 in sum, are never in use at once. Of the first one's 200
// pages 50 go for the second's 150, and come back in the next step.
TEST_F(PlacedPagesTest, ThePagesOfOnePlaceServeAnother) {
  stack_.limit(300 * kUnitBytes);
  const auto sequence = placed({{200, 0}, {150, 200}});
  for (int step = 0; step < 3; ++step) {
    begin(sequence);
    char* a = allocate(200);
    a[0] = a[200 * kUnitBytes - 1] = 'a';
    stack_->deallocate(a);
    char* b = allocate(150);
    EXPECT_EQ(b, a + 200 * kUnitBytes);
    b[0] = b[150 * kUnitBytes - 1] = 'b';
    stack_->deallocate(b);
  }
  EXPECT_EQ(stack_.placed().placedBlocks(), 6);
  EXPECT_EQ(late(), 0);
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 300 * kUnitBytes);
  EXPECT_EQ(stack_.spy().mostMappedBytes(), 300 * kUnitBytes);
}

// A place that is free in part: its own free pages, 100 of 160, are not what makes way for the
// rest.
TEST_F(PlacedPagesTest, APlaceKeepsThePagesThatItHas) {
  stack_.limit(200 * kUnitBytes);
  begin(placed({{100, 0}, {100, 300}, {160, 0}}));
  char* a = allocate(100);
  char* b = allocate(100);
  stack_->deallocate(a);
  stack_->deallocate(b);
  const int maps = stack_.spy().maps;
  EXPECT_EQ(allocate(160), a);
  EXPECT_EQ(stack_.spy().maps, maps + 1);
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 200 * kUnitBytes);
  stack_->deallocate(a);
}

// 300 units of budget. C needs 50 pages of A's and B's 250, which are free: A comes again next, so
// its pages stay. Blocks that fill the sequence keep B's turn far away.
TEST_F(PlacedPagesTest, PagesThatTheStepNeedsLastMakeWay) {
  stack_.limit(300 * kUnitBytes);
  std::vector<PlacedBlock> blocks = {{100, 0}, {150, 100}, {100, 300}, {100, 0}};
  for (std::uint32_t i = 0; i < 8; ++i) blocks.push_back({10 + i, 20 * i});
  begin(placed(blocks));
  char* a = allocate(100);
  char* b = allocate(150);
  freeAll({a, b});
  char* c = allocate(100);
  EXPECT_EQ(c, a + 300 * kUnitBytes);
  const int maps = stack_.spy().maps;
  EXPECT_EQ(allocate(100), a);
  EXPECT_EQ(stack_.spy().maps, maps);
  freeAll({a, c});
}

// A live block in a place's way: no page is moved for it.
TEST_F(PlacedPagesTest, NothingIsMappedForAPlaceThatIsTaken) {
  begin(placed({{10, 20}, {40, 0}}));
  char* a = allocate(10);
  const int maps = stack_.spy().maps;
  char* b = allocate(40);
  EXPECT_FALSE(isPlaced(b));
  EXPECT_EQ(stack_.spy().maps, maps + 1);  // the pool's
  EXPECT_EQ(stack_.placed().placedBytes().misplaced, 40 * kUnitBytes);
  freeAll({a, b});
}

// The budget is 300 units. A step on another stream has left 200 in its arena.
TEST_F(PlacedPagesTest, TheFreePagesOfAnotherStreamsArenaMakeWay) {
  stack_.limit(300 * kUnitBytes);
  begin(placed({{200, 0}}), kOther);
  char* others = allocate(200, kOther);
  EXPECT_TRUE(isPlaced(others));
  stack_->deallocate(others);
  begin(placed({{250, 0}}));
  char* a = allocate(250);
  EXPECT_TRUE(isPlaced(a));
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 300 * kUnitBytes);
  stack_->deallocate(a);
}

// There is room for two. The third is refused, and asked for again once the second is gone.
TEST_F(PlacedPagesTest, WhatIsAskedForAgainIsTheExpectedOneStill) {
  stack_.limit(200 * kUnitBytes);
  begin(placed({{100, 0}, {100, 100}, {100, 200}, {100, 300}}));
  char* a = allocate(100);
  char* b = allocate(100);
  EXPECT_EQ(allocate(100), nullptr);
  stack_->deallocate(b);
  char* c = allocate(100);
  EXPECT_EQ(c, a + 200 * kUnitBytes);
  EXPECT_EQ(deviations(), 0);
  EXPECT_EQ(late(), 0);
  EXPECT_EQ(stack_.placed().placedBytes().requested, 3 * 100 * kUnitBytes);
  EXPECT_EQ(stack_.placed().placedBytes().short_of_pages, 0);
  freeAll({a, c});
}

// An unforeseen one that was refused is counted once: 150 is in no sequence.
TEST_F(PlacedPagesTest, AnUnforeseenOneIsCountedOnceHoweverOftenItIsAskedFor) {
  stack_.limit(200 * kUnitBytes);
  begin(placed({{100, 0}, {100, 100}}));
  char* a = allocate(100);
  EXPECT_EQ(allocate(150), nullptr);
  EXPECT_EQ(deviations(), 0);
  EXPECT_EQ(stack_.placed().placedBytes().misplaced, 0);
  stack_->deallocate(a);
  char* b = allocate(150);
  EXPECT_EQ(deviations(), 1);
  EXPECT_EQ(stack_.placed().placedBytes().misplaced, 150 * kUnitBytes);
  stack_->deallocate(b);
}

// The arena has 256 MiB of addresses, 65536 units; the second place ends 4 units above them.
TEST_F(PlacedPagesTest, OfASequenceThatIsTooHighWhatLiesLowIsPlaced) {
  begin(placed({{10, 0}, {10, 65530}, {10, 10}}));
  char* a = allocate(10);
  char* b = allocate(10);
  char* c = allocate(10);
  EXPECT_TRUE(isPlaced(a));
  EXPECT_FALSE(isPlaced(b));
  EXPECT_EQ(c, a + 10 * kUnitBytes);
  freeAll({a, b, c});
}

// The pool's cache makes way for the arena.
TEST_F(PlacedPagesTest, TheArenaTakesTheCacheOfThePool) {
  stack_.limit(300 * kUnitBytes);
  stack_->deallocate(allocate(300));
  const auto sequence = placed({{200, 0}});
  begin(sequence);
  EXPECT_TRUE(isPlaced(allocate(200)));
  // A block of 100 fills the budget; another sequence asks for 50 more than there are.
  char* held = allocate(100);
  const int unmaps = stack_.spy().unmaps;
  begin(placed({{250, 0}}));
  EXPECT_EQ(stack_.spy().unmaps, unmaps);
  EXPECT_EQ(allocate(250), nullptr);  // 200 live in the arena, 100 in the pool
  stack_->deallocate(held);
  EXPECT_EQ(stack_.spy().mostMappedBytes(), 300 * kUnitBytes);
  begin(nullptr);
}

TEST_F(PlacedPagesTest, NoPlaceIsAboveTheAddresses) {
  auto lying = std::make_shared<PlacedSequence>();
  lying->blocks = {{10, UINT32_MAX - 4}, {10, 25}};
  lying->height_units = 30;
  begin(lying);
  std::vector<void*> blocks = {allocate(10), allocate(10)};
  begin(placed({{10, UINT32_MAX - 11}}));  // near 16 TiB
  blocks.push_back(allocate(10));
  auto wrapping = std::make_shared<PlacedSequence>();
  wrapping->blocks = {{10, UINT32_MAX - 1}};
  wrapping->height_units = UINT32_MAX;
  begin(wrapping);
  blocks.push_back(allocate(10));
  for (void* block : blocks) EXPECT_FALSE(isPlaced(block));
  freeAll(blocks);
}

}  // namespace
}  // namespace ebbtide::allocator::test
