// What every backend's resource must do, budget aside.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "spy_backend.hpp"

namespace ebbtide::allocator::test {
namespace {

class ContractTest : public testing::TestWithParam<Source> {
 protected:
  SpiedResource spied_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Backends, ContractTest, testing::Values(Source::kHost, Source::kHeap),
                         [](const auto& instance) {
                           return std::string(instance.param == Source::kHost ? "Host" : "Heap");
                         });

TEST_P(ContractTest, ZeroBytesAndNullAreNothing) {
  EXPECT_EQ(spied_->allocate(0), nullptr);
  spied_->deallocate(nullptr);
  EXPECT_EQ(CachingResource::blockBytesFor(0), 0);
  EXPECT_EQ(CachingResource::blockBytes(nullptr), 0);
  EXPECT_EQ(spied_->statistics().allocations, 0);
}

TEST_P(ContractTest, EverySizeIsAlignedWritableAndCountedAsPredicted) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 1; bytes <= 1100; ++bytes) sizes.push_back(bytes);
  for (std::size_t power = 11; power <= 24; ++power) {
    const std::size_t bytes = std::size_t{1} << power;
    for (const std::size_t around : {bytes - 65, bytes - 64, bytes - 63, bytes, bytes + 1}) {
      sizes.push_back(around);
    }
  }
  for (const std::size_t bytes : sizes) {
    auto* block = static_cast<unsigned char*>(spied_->allocate(bytes));
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kAlignment, 0U) << bytes;
    std::memset(block, 0xa5, bytes);
    const Bytes block_bytes = CachingResource::blockBytes(block);
    EXPECT_EQ(block_bytes, CachingResource::blockBytesFor(bytes)) << bytes;
    EXPECT_EQ(block_bytes, spied_->statistics().allocated_bytes) << bytes;
    EXPECT_TRUE(spied_.log->covers(block - kHeader, block_bytes)) << bytes;
    spied_->deallocate(block);
  }
}

TEST_P(ContractTest, BlockBytesFollowTheClasses) {
  // Header 64 + request, rounded up: to 64 below 1 KiB, to an eighth of the power of two below up
  // to 32 KiB, to 4 KiB pages above.
  EXPECT_EQ(CachingResource::blockBytesFor(1), 128);            // the smallest slot
  EXPECT_EQ(CachingResource::blockBytesFor(64), 128);           // 64 + 64
  EXPECT_EQ(CachingResource::blockBytesFor(65), 192);           // 129 -> 192
  EXPECT_EQ(CachingResource::blockBytesFor(960), 1024);         // 1024
  EXPECT_EQ(CachingResource::blockBytesFor(961), 1152);         // 1025 -> 1024 + 128
  EXPECT_EQ(CachingResource::blockBytesFor(4096), 4608);        // 4160 -> 4096 + 512
  EXPECT_EQ(CachingResource::blockBytesFor(32704), 32768);      // the largest slot
  EXPECT_EQ(CachingResource::blockBytesFor(32705), 36864);      // 32769 -> 9 pages
  EXPECT_EQ(CachingResource::blockBytesFor(1 << 20), 1052672);  // 256 pages and the header's one
}

TEST_P(ContractTest, SmallBlocksWasteLessThanAnEighth) {
  for (std::size_t bytes = 512 - kHeader; bytes <= 32704; ++bytes) {
    const Bytes used = static_cast<Bytes>(bytes) + kHeader;
    const Bytes slot = CachingResource::blockBytesFor(bytes);
    ASSERT_GE(slot, used);
    ASSERT_LT((slot - used) * 8, slot) << bytes;
    ASSERT_LE(slot, CachingResource::blockBytesFor(bytes + 1)) << bytes;
  }
}

TEST_P(ContractTest, ImpossibleSizesAreRefusedWithoutOverflow) {
  const std::size_t cached = requestFor(kMiB);
  spied_->deallocate(spied_->allocate(cached));
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 63, SIZE_MAX - 64, std::size_t{1} << 63,
                                  (std::size_t{1} << 63) - 1, (std::size_t{1} << 56) + 1}) {
    EXPECT_EQ(spied_->allocate(bytes), nullptr) << bytes;
    EXPECT_EQ(CachingResource::blockBytesFor(bytes), kUnlimited) << bytes;
  }
  // Refused at the door: the cache did not pay for it, and the peak did not see it.
  EXPECT_EQ(spied_->statistics().cached_bytes, kMiB);
  EXPECT_EQ(spied_->statistics().mapped_peak_bytes, kMiB);
}

TEST_P(ContractTest, ALargeBlockIsReusedLastInFirstOut) {
  void* first = spied_->allocate(requestFor(kMiB));
  void* second = spied_->allocate(requestFor(kMiB));
  spied_->deallocate(first);
  spied_->deallocate(second);
  EXPECT_EQ(spied_->statistics().cached_bytes, 2 * kMiB);
  EXPECT_EQ(spied_->allocate(requestFor(kMiB)), second);
  EXPECT_EQ(spied_->allocate(requestFor(kMiB)), first);
  EXPECT_EQ(spied_.log->maps, 2);
  spied_->deallocate(first);
  spied_->deallocate(second);
}

TEST_P(ContractTest, ASmallBlockIsReusedWithinItsClass) {
  void* first = spied_->allocate(100);  // 164 -> the 192-byte class, as are 65 to 128
  spied_->deallocate(first);
  EXPECT_EQ(spied_->allocate(65), first);
  EXPECT_NE(spied_->allocate(128), first);
  EXPECT_EQ(spied_.log->maps, 1);  // one chunk
  EXPECT_EQ(spied_->statistics().mapped_bytes, kChunk);
  spied_->deallocate(first);
  // The second slot follows the first one directly.
  spied_->deallocate(static_cast<char*>(first) + 192);
}

TEST_P(ContractTest, StatisticsFollowTheBlocks) {
  void* large = spied_->allocate(requestFor(2 * kMiB));
  void* small = spied_->allocate(1000);  // 1064 -> 1152
  Statistics stats = spied_->statistics();
  EXPECT_EQ(stats.allocated_bytes, 2 * kMiB + 1152);
  EXPECT_EQ(stats.mapped_bytes, 2 * kMiB + kChunk);
  EXPECT_EQ(stats.allocations, 2);
  spied_->deallocate(large);
  spied_->deallocate(small);
  stats = spied_->statistics();
  EXPECT_EQ(stats.allocated_bytes, 0);
  EXPECT_EQ(stats.allocated_peak_bytes, 2 * kMiB + 1152);
  EXPECT_EQ(stats.cached_bytes, 2 * kMiB);
  spied_->releaseCached();
  spied_->resetPeaks();
  stats = spied_->statistics();
  EXPECT_EQ(stats.cached_bytes, 0);
  EXPECT_EQ(stats.mapped_bytes, kChunk);  // chunks stay
  EXPECT_EQ(stats.mapped_peak_bytes, kChunk);
  EXPECT_EQ(stats.allocated_peak_bytes, 0);
  EXPECT_EQ(stats.reclaims, 0);
  EXPECT_EQ(stats.budget_violations, 0);
}

// Sums what it is told, from several threads.
class SummingObserver final : public Observer {
 public:
  void onAllocate(const void*, Bytes block_bytes) noexcept override {
    live_bytes += block_bytes;
    ++events;
  }
  void onFree(const void* block, Bytes block_bytes) noexcept override {
    EXPECT_EQ(CachingResource::blockBytes(block), block_bytes);
    live_bytes -= block_bytes;
    ++events;
  }
  std::atomic<Bytes> live_bytes{0};
  std::atomic<int> events{0};
};

TEST_P(ContractTest, TheObserverSeesEveryBlockWhileItIsSet) {
  SummingObserver observer;
  void* before = spied_->allocate(10);
  spied_->setObserver(&observer);
  void* small = spied_->allocate(10);
  void* large = spied_->allocate(requestFor(kMiB));
  EXPECT_EQ(observer.live_bytes, 128 + kMiB);
  spied_->deallocate(small);
  spied_->deallocate(large);
  EXPECT_EQ(observer.live_bytes, 0);
  EXPECT_EQ(observer.events, 4);
  spied_->setObserver(nullptr);
  spied_->deallocate(before);
  EXPECT_EQ(observer.events, 4);
}

// Blocks change hands between threads; each carries its owner's mark from allocation to free.
TEST_P(ContractTest, EightThreadsKeepTheirBlocksApart) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 5000;
  SummingObserver observer;
  spied_->setObserver(&observer);
  std::mutex exchange_mutex;
  std::vector<std::pair<std::uint64_t*, std::uint64_t>> exchange;
  std::atomic<int> damaged{0};
  const auto work = [&](int thread) {
    std::mt19937_64 random(static_cast<std::uint64_t>(thread));
    for (int round = 0; round < kRounds; ++round) {
      const std::size_t bytes =
          random() % 8 == 0 ? 32 * kKiB + random() % (256 * kKiB) : 16 + random() % (4 * kKiB);
      auto* block = static_cast<std::uint64_t*>(spied_->allocate(bytes));
      ASSERT_NE(block, nullptr);
      const std::uint64_t mark = random();
      block[0] = mark;
      block[bytes / 8 - 1] = mark;
      std::pair<std::uint64_t*, std::uint64_t> out{block, mark};
      {
        const std::lock_guard lock(exchange_mutex);
        exchange.push_back(out);
        std::swap(exchange.back(), exchange[random() % exchange.size()]);
        if (exchange.size() < 64) continue;
        out = exchange.back();
        exchange.pop_back();
      }
      if (*out.first != out.second) ++damaged;
      spied_->deallocate(out.first);
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();
  for (const auto& [block, mark] : exchange) {
    if (*block != mark) ++damaged;
    spied_->deallocate(block);
  }
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(observer.live_bytes, 0);
  EXPECT_EQ(observer.events, 2 * kThreads * kRounds);
  EXPECT_EQ(spied_->statistics().allocations, kThreads * kRounds);
}

TEST_P(ContractTest, LiveSmallBlocksOutliveTheResource) {
  auto log = std::make_shared<SpyLog>();
  auto resource = std::make_unique<CachingResource>(
      std::make_unique<SpyBackend>(std::make_unique<HeapBackend>(), log));
  auto* block = static_cast<char*>(resource->allocate(8));
  std::memcpy(block, "alive", 6);
  resource.reset();
  EXPECT_STREQ(block, "alive");
  EXPECT_EQ(log->mapped_bytes, kChunk);  // left to the owner of the block
  std::free(log->mappings.begin()->first);
}

}  // namespace
}  // namespace ebbtide::allocator::test
