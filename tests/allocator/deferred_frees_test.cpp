// Blocks that wait for events.
#include "deferred_frees.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "fakes.hpp"

namespace ebbtide::allocator::test {
namespace {

using Look = DeferredFrees::Look;
using Outcome = DeferredFrees::Outcome;

constexpr Stream kOne{1}, kTwo{2};

class DeferredFreesTest : public testing::Test {
 protected:
  ~DeferredFreesTest() override { EXPECT_EQ(events_.badCalls(), 0); }

  void* block(std::size_t n) { return &blocks_[n]; }
  void defer(std::size_t n, Stream stream) {
    frees_.share(block(n), stream);
    ASSERT_EQ(frees_.defer(block(n)), Outcome::kAwaiting);
  }
  std::set<void*> popAll(Look look) {
    std::set<void*> popped;
    void* done = nullptr;
    while (frees_.popDone(done, look)) EXPECT_TRUE(popped.insert(done).second);
    return popped;
  }

  FakeEvents events_;
  DeferredFrees frees_{events_};
  std::vector<char> blocks_ = std::vector<char>(1000);
};

TEST_F(DeferredFreesTest, ABlockIsDoneWithTheLastOfItsStreams) {
  frees_.share(block(0), kOne);
  frees_.share(block(0), kTwo);
  frees_.share(block(0), kOne);
  EXPECT_FALSE(frees_.anyAwaiting());
  EXPECT_EQ(frees_.defer(block(0)), Outcome::kAwaiting);
  EXPECT_EQ(events_.records, 2);
  EXPECT_TRUE(popAll(Look::kAtAll).empty());
  events_.finish(kTwo);
  EXPECT_TRUE(popAll(Look::kAtAll).empty());
  events_.finish(kOne);
  EXPECT_EQ(popAll(Look::kAtAll), std::set<void*>{block(0)});
  EXPECT_EQ(events_.unrecycled(), 0U);
  EXPECT_FALSE(frees_.anyAwaiting());
}

TEST_F(DeferredFreesTest, WhatWasNeverSharedOrIsAwaitingIsUnknown) {
  EXPECT_EQ(frees_.defer(block(0)), Outcome::kUnknown);
  defer(1, kOne);
  EXPECT_EQ(frees_.defer(block(1)), Outcome::kUnknown);
  events_.immediate = true;
  frees_.share(block(2), kOne);
  EXPECT_EQ(frees_.defer(block(2)), Outcome::kFree);
  EXPECT_EQ(frees_.defer(block(2)), Outcome::kUnknown);
}

TEST_F(DeferredFreesTest, NothingIsAskedWhenNothingWaits) {
  EXPECT_TRUE(popAll(Look::kAtAll).empty());
  EXPECT_EQ(events_.queries, 0);
}

// 100 blocks wait for a stream that hangs; one, the last, for another. Each pop looks at 16.
TEST_F(DeferredFreesTest, AStreamThatHangsDoesNotHideTheOthers) {
  for (std::size_t n = 0; n < 100; ++n) defer(n, kOne);
  defer(100, kTwo);
  events_.finish(kTwo);
  std::set<void*> popped;
  int pops = 0;
  while (popped.empty() && ++pops < 100) popped = popAll(Look::kAtFew);
  EXPECT_EQ(popped, std::set<void*>{block(100)});
  EXPECT_LE(pops, 7);                        // 101 / 16
  EXPECT_LE(events_.queries, (7 + 1) * 16);  // the last one looks on for another
}

TEST_F(DeferredFreesTest, AnyOrderOfEndsIsFine) {
  for (std::size_t n = 0; n < 200; ++n) defer(n, kOne);
  std::set<void*> popped;
  // 7 and 200 have no common divisor: each of 0 ... 199 once.
  for (std::uint64_t n = 0; n < 200; ++n) {
    events_.finish(1 + n * 7 % 200);
    popped.merge(popAll(Look::kAtAll));
    EXPECT_EQ(popped.size(), n + 1);
  }
  EXPECT_EQ(events_.unrecycled(), 0U);
}

TEST_F(DeferredFreesTest, ARefusedEventIsDoneAfterASynchronizeOnly) {
  events_.refuse_records = true;
  defer(0, kOne);
  EXPECT_TRUE(popAll(Look::kAtAll).empty());
  const std::uint64_t mark = frees_.lastDeferred();
  ASSERT_TRUE(events_.synchronize(std::chrono::seconds{1}));
  frees_.allDoneUpTo(mark);
  EXPECT_EQ(popAll(Look::kAtAll), std::set<void*>{block(0)});
}

//   lastDeferred ─ synchronize ──────────────── allDoneUpTo
//                               defer(1)  its event is later than what was waited for
TEST_F(DeferredFreesTest, WhatIsDeferredDuringASynchronizeIsNotDone) {
  defer(0, kOne);
  const std::uint64_t mark = frees_.lastDeferred();
  ASSERT_TRUE(events_.synchronize(std::chrono::seconds{1}));
  defer(1, kOne);
  frees_.allDoneUpTo(mark);
  EXPECT_EQ(popAll(Look::kAtAll), std::set<void*>{block(0)});
  events_.finishAll();
  EXPECT_EQ(popAll(Look::kAtAll), std::set<void*>{block(1)});
  EXPECT_EQ(events_.unrecycled(), 0U);
}

}  // namespace
}  // namespace ebbtide::allocator::test
