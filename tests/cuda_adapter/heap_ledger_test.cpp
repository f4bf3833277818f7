// HeapLedger without a memory: addresses and pages are those that a test names.
#include "cuda/heap_ledger.hpp"

#include <gtest/gtest.h>

#include "ebbtide/allocator/cuda/stream_names.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

constexpr Bytes kMiB = 1 << 20;
constexpr c10::MempoolId_t kPool{1, 0};

class HeapLedgerTest : public ::testing::Test {
 protected:
  static cudaStream_t stream(std::uintptr_t number) {
    return reinterpret_cast<cudaStream_t>(number * 0x1000);
  }
  static std::byte* at(Bytes offset) { return reinterpret_cast<std::byte*>(64 * kMiB + offset); }
  static Owner ownerOn(cudaStream_t stream, const c10::MempoolId_t& pool = {0, 0}) {
    return {.name = allocator::cuda::nameOf(stream), .pool = pool};
  }
  void enter(const void* block, const Owner& owner = ownerOn(stream(1))) {
    ledger_.enter(
        block, {.bytes = kMiB, .requested_bytes = kMiB - 100, .owner = owner, .context = nullptr});
  }
  std::int64_t activeBlocks() { return ledger_.statistics(0).active[0].current; }
  std::int64_t liveBlocks() { return ledger_.statistics(0).allocation[0].current; }

  HistorySettings settings_;
  PrivatePools pools_{[](allocator::Stream, bool) {}, [] { return true; }};
  HeapLedger ledger_{0, settings_, pools_};
};

TEST_F(HeapLedgerTest, ABlockOfOneStreamIsGoneWhenItIsFreed) {
  enter(at(0));
  EXPECT_TRUE(ledger_.isOf(at(0), stream(1)));
  EXPECT_FALSE(ledger_.share(at(0), stream(1), /*here=*/true));
  const HeapLedger::Freed freed = ledger_.beginFree(at(0), nullptr);
  EXPECT_EQ(freed.bytes, kMiB);
  EXPECT_FALSE(freed.awaiting);
  EXPECT_EQ(activeBlocks(), 0);
  EXPECT_THROW(ledger_.beginFree(at(0), nullptr), c10::Error);
  EXPECT_THROW(ledger_.share(at(0), stream(2), true), c10::Error);
}

// A stream of another device is none of ours, though its handle may be the same.
TEST_F(HeapLedgerTest, ABlockAwaitsTheStreamsThatUseIt) {
  enter(at(0));
  EXPECT_TRUE(ledger_.share(at(0), stream(1), /*here=*/false));
  EXPECT_TRUE(ledger_.beginFree(at(0), nullptr).awaiting);
  EXPECT_FALSE(ledger_.isOf(at(0), stream(1)));
  EXPECT_EQ(liveBlocks(), 0);
  EXPECT_EQ(activeBlocks(), 1);
  EXPECT_THROW(ledger_.beginFree(at(0), nullptr), c10::Error);
  ledger_.onReusable(at(0));
  EXPECT_EQ(activeBlocks(), 0);
  ledger_.onReusable(at(0));  // nobody's: nothing happens
  EXPECT_EQ(activeBlocks(), 0);
}

// Its address may have been given again before the call that frees it ends.
TEST_F(HeapLedgerTest, AFreeEndsItsOwnBlockAlone) {
  enter(at(0));
  ledger_.share(at(0), stream(2), true);
  const HeapLedger::Freed first = ledger_.beginFree(at(0), nullptr);
  enter(at(0));
  EXPECT_EQ(activeBlocks(), 1) << "the first one is gone";
  ledger_.endFree(at(0), first, nullptr);
  EXPECT_TRUE(ledger_.isOf(at(0), stream(1)));
  ledger_.share(at(0), stream(2), true);
  ledger_.endFree(at(0), ledger_.beginFree(at(0), nullptr), nullptr);
  EXPECT_EQ(activeBlocks(), 0);
}

// A pool that nobody uses lasts as long as a block of it.
TEST_F(HeapLedgerTest, PoolsAreToldOfBlocksThatAreGone) {
  pools_.begin(kPool, [](cudaStream_t) { return true; });
  const PrivatePools::Place place = pools_.place(stream(1));
  pools_.end(kPool);
  enter(at(0), {.name = place.name, .pool = place.pool});
  pools_.release(kPool);
  EXPECT_FALSE(ledger_.isOf(at(0), stream(1))) << "a graph may write there";
  EXPECT_TRUE(ledger_.hasExactly(kPool, {at(0)}));
  EXPECT_EQ(pools_.uses(kPool), 0);
  ledger_.beginFree(at(0), nullptr);
  EXPECT_TRUE(ledger_.hasExactly(kPool, {}));
  EXPECT_THROW(pools_.uses(kPool), c10::Error);
}

// 4 MiB mapped; 1 MiB lives, 1 awaits a stream: 2 are idle.
TEST_F(HeapLedgerTest, AFailedRequestTellsWhatTheMemoryHolds) {
  ledger_.onMapped(at(0), 4 * kMiB, ownerOn(stream(1)), nullptr);
  enter(at(0));
  enter(at(kMiB));
  ledger_.share(at(kMiB), stream(2), true);
  ledger_.beginFree(at(kMiB), nullptr);
  ledger_.onRetry();
  const auto shortage = ledger_.onOutOfMemory(0, 8 * kMiB, ownerOn(stream(1)), nullptr);
  EXPECT_EQ(shortage.live_bytes, kMiB);
  EXPECT_EQ(shortage.awaiting_bytes, kMiB);
  EXPECT_EQ(shortage.idle_bytes, 2 * kMiB);
  const auto statistics = ledger_.statistics(7);
  EXPECT_EQ(statistics.num_ooms, 1);
  EXPECT_EQ(statistics.num_alloc_retries, 1);
  EXPECT_EQ(statistics.num_sync_all_streams, 7);
  EXPECT_EQ(ledger_.totals().allocated_bytes, kMiB);
  EXPECT_EQ(ledger_.totals().reserved_bytes, 4 * kMiB);
}

// Two calls map neighbours: one run, which ends where the first 2 MiB are unmapped.
TEST_F(HeapLedgerTest, NeighboursOfOneOwnerAreOneRun) {
  const Owner owner = ownerOn(stream(3));
  ledger_.onMapped(at(0), 2 * kMiB, owner, nullptr);
  ledger_.onMapped(at(2 * kMiB), 2 * kMiB, owner, nullptr);
  enter(at(3 * kMiB), owner);
  const auto around = ledger_.rangeAround(at(3 * kMiB));
  ASSERT_TRUE(around.has_value());
  EXPECT_EQ(around->begin, at(0));
  EXPECT_EQ(around->bytes, 4 * kMiB);
  EXPECT_FALSE(ledger_.rangeAround(at(2 * kMiB)).has_value()) << "no block begins there";
  ledger_.onUnmapping(at(0), 2 * kMiB);
  EXPECT_EQ(ledger_.rangeAround(at(3 * kMiB))->begin, at(2 * kMiB));
  const auto sizes = ledger_.segmentSizes();
  ASSERT_EQ(sizes.size(), 1U);
  EXPECT_EQ(sizes[0].stream, stream(3));
  EXPECT_EQ(sizes[0].total_size, static_cast<std::size_t>(2 * kMiB));
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
