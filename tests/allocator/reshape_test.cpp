// Cached blocks change their size: cut, joined, gathered, and only then given back.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "spy_backend.hpp"

namespace ebbtide::allocator::test {
namespace {

class ReshapeTest : public testing::TestWithParam<Source> {
 protected:
  void* allocate(Bytes block_bytes) {
    void* block = spied_->allocate(requestFor(block_bytes));
    EXPECT_EQ(CachingResource::blockBytes(block), block_bytes);
    return block;
  }

  std::vector<void*> allocateAll(const std::vector<Bytes>& sizes) {
    std::vector<void*> blocks;
    for (const Bytes size : sizes) blocks.push_back(allocate(size));
    return blocks;
  }

  void freeAll(const std::vector<void*>& blocks) {
    for (void* block : blocks) spied_->deallocate(block);
  }

  SpiedResource spied_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Backends, ReshapeTest, testing::Values(Source::kHost, Source::kHeap),
                         [](const auto& instance) {
                           return std::string(instance.param == Source::kHost ? "Host" : "Heap");
                         });

TEST_P(ReshapeTest, TheSmallestLargerBlockIsCut) {
  spied_.limit(8 * kMiB);
  const std::vector<void*> blocks = allocateAll({3 * kMiB, 4 * kMiB});
  freeAll(blocks);
  // 7 of 8 are mapped, so 2 do not fit.
  void* two = allocate(2 * kMiB);
  EXPECT_EQ(two, blocks[0]);
  EXPECT_EQ(spied_->statistics().mapped_bytes, 7 * kMiB);
  EXPECT_EQ(spied_->statistics().cached_bytes, 5 * kMiB);
  EXPECT_EQ(spied_.log->fresh_bytes, 7 * kMiB);
  EXPECT_EQ(spied_.log->returned_bytes, 0);
  // The rest fits exactly.
  void* one = allocate(kMiB);
  EXPECT_EQ(one, static_cast<char*>(two) + 2 * kMiB);
  freeAll({one, two});
}

TEST_P(ReshapeTest, NeighboursAreJoined) {
  spied_.limit(4 * kMiB);
  spied_->deallocate(allocate(4 * kMiB));
  std::vector<void*> blocks = allocateAll({kMiB, kMiB, kMiB, kMiB});  // cut from it, in order
  std::sort(blocks.begin(), blocks.end());
  freeAll({blocks[2], blocks[0], blocks[1]});
  void* three = allocate(3 * kMiB);
  EXPECT_EQ(three, blocks[0]);
  EXPECT_EQ(spied_.log->maps, 1);
  EXPECT_EQ(spied_.log->gathers, 0);
  freeAll({three, blocks[3]});
}

TEST_P(ReshapeTest, ScatteredPagesAreGatheredAndTheRoomGrowsThem) {
  spied_.limit(5 * kMiB);
  freeAll(allocateAll({5 * kMiB}));
  std::vector<void*> blocks = allocateAll({kMiB, kMiB, kMiB, kMiB, kMiB});  // cut from it
  std::sort(blocks.begin(), blocks.end());
  freeAll({blocks[0], blocks[2]});  // no neighbours
  spied_.limit(6 * kMiB);
  ASSERT_EQ(6 * kMiB - spied_->statistics().mapped_bytes, kMiB);
  ASSERT_EQ(spied_->statistics().cached_bytes, 2 * kMiB);
  // 3 is more than the room of 1 and more than any cached block: both of these move, and the room
  // is mapped behind them.
  void* grown = allocate(3 * kMiB);
  EXPECT_EQ(spied_.log->gathers, 1);
  EXPECT_EQ(spied_->statistics().mapped_bytes, 6 * kMiB);
  EXPECT_EQ(spied_->statistics().cached_bytes, 0);
  EXPECT_EQ(spied_.log->fresh_bytes, (5 + 1) * kMiB);
  EXPECT_EQ(spied_.log->returned_bytes, 0);
  spied_->deallocate(grown);
  freeAll({blocks[1], blocks[3], blocks[4]});
}

TEST_P(ReshapeTest, ARefusedGatherFallsBackToAMapping) {
  spied_.limit(4 * kMiB);
  const std::vector<void*> blocks = allocateAll({kMiB, kMiB, 2 * kMiB});
  freeAll({blocks[0], blocks[2]});
  spied_.log->refuse_gathers = 1;
  void* three = allocate(3 * kMiB);
  const Statistics stats = spied_->statistics();
  EXPECT_EQ(stats.mapped_bytes, 4 * kMiB);
  EXPECT_EQ(stats.cached_bytes, 0);
  freeAll({blocks[1], three});
}

// Fragments below 64 KiB are not worth a move: unmapped and mapped afresh, one for one.
TEST_P(ReshapeTest, SmallPiecesAreReplaced) {
  constexpr Bytes kSmall = 9 * kPage;
  spied_.limit(16 * kSmall);
  const std::vector<void*> blocks = allocateAll(std::vector<Bytes>(16, kSmall));
  std::vector<void*> odd;
  std::vector<void*> even;
  for (std::size_t i = 0; i < 16; ++i) (i % 2 == 0 ? even : odd).push_back(blocks[i]);
  freeAll(even);
  void* large = allocate(8 * kSmall);
  EXPECT_EQ(spied_.log->gathers, 0);
  EXPECT_EQ(spied_.log->returned_bytes, 8 * kSmall);
  EXPECT_EQ(spied_->statistics().mapped_bytes, 16 * kSmall);
  freeAll(odd);
  spied_->deallocate(large);
}

// 8 MiB cycle through blocks of 4, 2 and 1 MiB. The first round maps 8 MiB. After that the cache
// always holds the 8 MiB in whole mebibytes, each at least a mebibyte of one mapping: cuts, joins
// and gathers move no page to or from the system, so fresh and returned bytes stay as they are.
TEST_P(ReshapeTest, SizesThatDivideEachOtherCostNothingAfterTheFirstRound) {
  spied_.limit(8 * kMiB);
  std::vector<Bytes> sizes;
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    sizes.clear();
    for (Bytes left = 8 * kMiB; left > 0; left -= sizes.back()) {
      sizes.push_back(std::min(left, kMiB << random() % 3));
      if (sizes.back() == 3 * kMiB) sizes.back() = 2 * kMiB;
    }
    std::vector<void*> blocks = allocateAll(sizes);
    std::shuffle(blocks.begin(), blocks.end(), random);
    freeAll(blocks);
  }
  EXPECT_EQ(spied_.log->fresh_bytes, 8 * kMiB);
  EXPECT_EQ(spied_.log->returned_bytes, 0);
}

// The sizes of a real trace: 2305, 1153 and 289 pages. Twice 1153 is 2305 and one page, four times
// 289 is 1153 and three, so cuts leave odd pages. At 98 % of the budget they stay unused. A cut and
// a join fetch nothing. A gather moves all stretches but those below 16 pages, which it fetches
// afresh: about one, where the last block that it takes is cut, so 15 pages at most for each
// gather. Were every allocation one, that is 15 x 4096 of the 5,115,904 bytes that the three sizes
// have on average: an 83rd.
TEST_P(ReshapeTest, SizesOfATraceCostLessThanAnEightieth) {
  constexpr std::array<Bytes, 3> kSizes{9441280, 4722688, 1183744};
  constexpr Bytes kBudget = 100'000 * kKiB;
  spied_.limit(kBudget);
  std::mt19937_64 random(9);
  std::vector<void*> live;
  Bytes live_bytes = 0;
  Bytes taken_bytes = 0;
  Bytes fresh_before = 0;
  int gathers_before = 0;
  for (int step = 0; step < 3000; ++step) {
    if (step == 500) {
      fresh_before = spied_.log->fresh_bytes;
      gathers_before = spied_.log->gathers;
      taken_bytes = 0;
    }
    const Bytes size = kSizes[random() % 3];
    while (live_bytes + size > kBudget * 98 / 100) {
      std::swap(live[random() % live.size()], live.back());
      live_bytes -= CachingResource::blockBytes(live.back());
      spied_->deallocate(live.back());
      live.pop_back();
    }
    live.push_back(allocate(size));
    live_bytes += size;
    taken_bytes += size;
  }
  const Bytes fresh = spied_.log->fresh_bytes - fresh_before;
  const int gathers = spied_.log->gathers - gathers_before;
  EXPECT_GT(gathers, 0);
  EXPECT_LE(fresh, gathers * 15 * kPage);
  EXPECT_LT(fresh * 80, taken_bytes);  // of 2500 allocations
  freeAll(live);
}

}  // namespace
}  // namespace ebbtide::allocator::test
