// Blocks of a step at their places, and all that can go otherwise.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "placed_stack.hpp"

namespace ebbtide::allocator::test {
namespace {

// A (10 units) at 0, B (20) at 10, C (10) at 0 after A is gone.
TEST_F(PlacedResourceTest, AStepThatIsAsForeseenGetsItsPlaces) {
  const auto sequence = placed({{10, 0}, {20, 10}, {10, 0}});
  char* first = nullptr;
  for (int step = 0; step < 3; ++step) {
    begin(sequence);
    char* a = allocate(10);
    if (step == 0) first = a;
    EXPECT_EQ(a, first);
    char* b = allocate(20);
    EXPECT_EQ(b, a + 10 * kUnitBytes);
    stack_->deallocate(a);
    EXPECT_EQ(allocate(10), a);
    stack_->deallocate(a);
    stack_->deallocate(b);
  }
  EXPECT_EQ(stack_.placed().placedBlocks(), 9);
  EXPECT_EQ(deviations(), 0);
  EXPECT_EQ(late(), 0);
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 30 * kUnitBytes);
  EXPECT_EQ(stack_.memory().statistics().allocations, 9);
}

TEST_F(PlacedResourceTest, ALateFreeKeepsItsBytesAndTheNextOneGoesUpstream) {
  begin(placed({{10, 0}, {10, 0}, {10, 10}}));
  char* a = allocate(10);
  a[10 * kUnitBytes - 1] = 'a';
  char* b = allocate(10);  // A should be gone
  EXPECT_FALSE(isPlaced(b));
  b[0] = b[10 * kUnitBytes - 1] = 'b';
  EXPECT_EQ(a[10 * kUnitBytes - 1], 'a');
  EXPECT_EQ(late(), 1);
  char* c = allocate(10);  // the cursor went on
  EXPECT_EQ(c, a + 10 * kUnitBytes);
  for (char* block : {a, b, c}) stack_->deallocate(block);
}

// Half of the place is taken: that is enough to go upstream.
TEST_F(PlacedResourceTest, APlaceThatOverlapsByOneUnitIsTaken) {
  begin(placed({{10, 5}, {10, 14}, {10, 15}, {9, 25}}));
  char* a = allocate(10);
  char* b = allocate(10);
  EXPECT_FALSE(isPlaced(b));  // 14 is A's last unit
  char* c = allocate(10);
  EXPECT_EQ(c, a + 10 * kUnitBytes);
  for (char* block : {a, b, c}) stack_->deallocate(block);
}

TEST_F(PlacedResourceTest, AnotherSizeIsSearchedForALittleWayAhead) {
  std::vector<PlacedBlock> blocks;
  for (std::uint32_t i = 0; i < 40; ++i) blocks.push_back({10 + i, 100 * i});
  begin(placed(blocks));
  char* a = allocate(10);
  char* b = allocate(12);  // 11 was left out
  EXPECT_EQ(b, a + 200 * kUnitBytes);
  EXPECT_EQ(deviations(), 1);
  char* unforeseen = allocate(11);  // passed: not again
  EXPECT_FALSE(isPlaced(unforeseen));
  EXPECT_EQ(deviations(), 2);
  char* far = allocate(40);  // more than 16 blocks ahead
  EXPECT_FALSE(isPlaced(far));
  char* next = allocate(13);  // so the cursor stayed
  EXPECT_EQ(next, a + 300 * kUnitBytes);
  for (char* block : {a, b, unforeseen, far, next}) stack_->deallocate(block);
}

TEST_F(PlacedResourceTest, TheFirstDeviationIsKeptUntilTheNextStep) {
  const auto sequence = placed({{10, 0}, {11, 10}, {12, 21}});
  EXPECT_FALSE(stack_.placed().firstDeviation(kStream).has_value());
  begin(sequence);
  char* a = allocate(10);
  EXPECT_FALSE(stack_.placed().firstDeviation(kStream).has_value());
  char* c = allocate(12);
  char* unforeseen = allocate(50);
  auto first = stack_.placed().firstDeviation(kStream);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->block, 1);
  EXPECT_EQ(first->expected_bytes, 11 * kUnitBytes);
  EXPECT_EQ(first->requested_bytes, 12 * kUnitBytes);
  EXPECT_FALSE(stack_.placed().firstDeviation(kOther).has_value());
  for (char* block : {a, c, unforeseen}) stack_->deallocate(block);

  begin(placed({{10, 0}}));
  EXPECT_FALSE(stack_.placed().firstDeviation(kStream).has_value());
  a = allocate(10);
  c = allocate(12);  // none is expected any more
  first = stack_.placed().firstDeviation(kStream);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->block, 1);
  EXPECT_EQ(first->expected_bytes, 0);
  EXPECT_EQ(first->requested_bytes, 12 * kUnitBytes);
  for (char* block : {a, c}) stack_->deallocate(block);
}

TEST_F(PlacedResourceTest, APhaseBringsTheCursorBack) {
  begin(placed({{10, 0}, {11, 10}, {12, 21}, {13, 33}}, {0, 2}));
  char* a = allocate(10);
  stack_.placed().beginPhase(kStream, 1);  // B was left out
  char* c = allocate(12);
  EXPECT_EQ(c, a + 21 * kUnitBytes);
  EXPECT_EQ(deviations(), 0);
  stack_.placed().beginPhase(kStream, 7);  // no such phase
  char* d = allocate(13);
  EXPECT_EQ(d, a + 33 * kUnitBytes);
  stack_.placed().beginPhase(kOther, 0);  // no such stream
  for (char* block : {a, c, d}) stack_->deallocate(block);
}

TEST_F(PlacedResourceTest, SmallOnesAndThoseBehindTheEndGoUpstream) {
  begin(placed({{10, 0}, {10, PlacedBlock::kNotPlaced}}));
  void* small = stack_->allocate(100, kStream);
  EXPECT_FALSE(isPlaced(small));
  EXPECT_EQ(deviations(), 0);  // they are in no sequence
  char* a = allocate(10);
  EXPECT_TRUE(isPlaced(a));
  char* b = allocate(10);
  EXPECT_FALSE(isPlaced(b));  // foreseen, not placed
  EXPECT_EQ(deviations(), 0);
  char* c = allocate(10);
  EXPECT_FALSE(isPlaced(c));
  EXPECT_EQ(deviations(), 1);
  begin(nullptr);
  char* d = allocate(10);
  EXPECT_FALSE(isPlaced(d));
  EXPECT_EQ(deviations(), 1);
  for (void* block : std::vector<void*>{small, a, b, c, d}) stack_->deallocate(block);
}

TEST_F(PlacedResourceTest, ABlockOutlivesItsSequence) {
  begin(placed({{10, 0}}));
  char* a = allocate(10);
  a[0] = 'a';
  begin(placed({{20, 0}, {10, 5}, {10, 20}}));
  char* b = allocate(20);
  EXPECT_FALSE(isPlaced(b));
  char* c = allocate(10);
  EXPECT_FALSE(isPlaced(c));
  char* d = allocate(10);
  EXPECT_EQ(d, a + 20 * kUnitBytes);
  EXPECT_EQ(a[0], 'a');
  EXPECT_EQ(stack_->blockBytes(a), 10 * kUnitBytes);
  for (char* block : {a, b, c, d}) stack_->deallocate(block);
}

TEST_F(PlacedResourceTest, OnlyTheThreadOfTheStepFollowsIt) {
  stack_.placed().beginStep(kStream, placed({{10, 0}, {10, 10}}), /*this_thread_only=*/true);
  void* other = nullptr;
  std::thread([&] { other = allocate(10); }).join();
  EXPECT_FALSE(isPlaced(other));
  EXPECT_EQ(deviations(), 0);
  char* mine = allocate(10);
  EXPECT_TRUE(isPlaced(mine));
  std::thread([&] { stack_->deallocate(mine); }).join();  // freed by whom it may
  stack_->deallocate(other);
}

// The same offsets on two streams are two addresses: work of the one may use what it freed.
TEST_F(PlacedResourceTest, StreamsShareNoPlaces) {
  const auto sequence = placed({{10, 0}});
  begin(sequence);
  char* a = allocate(10);
  EXPECT_TRUE(isPlaced(a));
  stack_->deallocate(a);
  begin(sequence, kOther);
  char* b = allocate(10, kOther);
  EXPECT_TRUE(isPlaced(b));
  EXPECT_NE(a, b);
  stack_->deallocate(b);
}

TEST_F(PlacedResourceTest, APlacedBlockWaitsForTheStreamsItWasSharedWith) {
  const auto sequence = placed({{10, 0}});
  begin(sequence);
  char* a = allocate(10);
  stack_->recordStream(a, kStream);  // its own
  stack_->recordStream(a, kOther);
  stack_->deallocate(a);
  EXPECT_EQ(stack_.events().records, 1);
  begin(sequence);
  char* b = allocate(10);
  EXPECT_FALSE(isPlaced(b));
  EXPECT_EQ(late(), 1);
  stack_.events().finish(kOther);
  begin(sequence);
  EXPECT_EQ(allocate(10), a);
  stack_->deallocate(a);
  stack_->deallocate(b);
}

TEST_F(PlacedResourceTest, RecordStreamOfWhatIsNoBlockIsIgnored) {
  begin(placed({{10, 0}}));
  char* a = allocate(10);
  stack_->recordStream(a + kUnitBytes, kOther);
  stack_->recordStream(a + 1, kOther);
  stack_->deallocate(a);
  stack_->recordStream(a, kOther);
  EXPECT_EQ(stack_.events().records, 0);
  EXPECT_EQ(stack_->blockBytes(a), 0);
  EXPECT_EQ(stack_->blockBytes(a + 1), 0);
}

TEST_F(PlacedResourceTest, ARefusedEventHoldsThePlaceUntilTheDeviceWasWaitedFor) {
  const auto sequence = placed({{10, 0}});
  begin(sequence);
  char* a = allocate(10);
  stack_->recordStream(a, kOther);
  stack_.events().refuse_records = true;
  stack_->deallocate(a);
  EXPECT_EQ(stack_.memory().statistics().cached_bytes, 0);
  stack_.memory().releaseCached();
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 0);  // the wait told
}

TEST_F(PlacedResourceTest, MoreThanEightStreamsWithStepsGoUpstream) {
  for (std::uintptr_t stream = 1; stream <= 9; ++stream) {
    begin(placed({{10, 0}}), Stream{stream});
    char* block = allocate(10, Stream{stream});
    EXPECT_EQ(isPlaced(block), stream <= 8);
    stack_->deallocate(block);
  }
}

TEST_F(PlacedResourceTest, WithoutAddressesThereIsNoArena) {
  stack_.spy().refuse_reservations = true;
  begin(placed({{10, 0}}));
  EXPECT_EQ(allocate(10), nullptr);
  stack_->deallocate(nullptr);
  stack_.spy().refuse_reservations = false;
  begin(placed({{10, 0}}));
  char* block = allocate(10);
  EXPECT_TRUE(isPlaced(block));
  stack_->deallocate(block);
}

}  // namespace
}  // namespace ebbtide::allocator::test
