// A million random operations against a shadow that shares no code with the allocator: live blocks
// are disjoint, lie in mapped pages, keep their bytes, and what is mapped never exceeds the budget.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "spy_backend.hpp"

namespace ebbtide::allocator::test {
namespace {

constexpr Bytes kBudget = 32 * kMiB;
constexpr std::size_t kMostLive = 2000;
constexpr std::size_t kMarkStep = 4096;  // every page carries the mark

class Shadow final : public Reclaimer {
 public:
  Shadow(SpiedResource& spied, std::uint64_t seed) : spied_(spied), random_(seed) {}

  Bytes reclaim(Bytes) noexcept override {
    ++reclaims_;
    if (reclaims_ % 4 == 0) return 1 << 30;  // a lie
    if (reclaims_ % 5 == 0) allocate();      // nested
    const Bytes before = live_bytes_;
    for (std::uint64_t blocks = random_() % 4; blocks > 0; --blocks) freeAny();
    return before - live_bytes_;
  }

  void step() {
    const std::uint64_t dice = random_() % 10000;
    if (dice < 2) {
      spied_->releaseCached();
    } else if (dice < 6) {
      spied_.limit(kBudget / 4 + static_cast<Bytes>(random_() % (kBudget * 3 / 4)));
    } else if (dice < 10) {
      spied_.log->refuse_maps = 1 + static_cast<int>(random_() % 3);
    } else if (dice < 14) {
      spied_.log->refuse_gathers = 1;
    } else if (dice < 5200 && live_.size() < kMostLive) {
      allocate();
    } else {
      freeAny();
    }
  }

  void freeAny() {
    if (live_.empty()) return;
    const std::size_t index = random_() % live_.size();
    const Block block = live_[index];
    live_[index] = live_.back();
    live_.pop_back();
    intervals_.erase(block.begin);
    live_bytes_ -= block.block_bytes;
    damaged_ += block.mark != readMark(block.begin + block.bytes - sizeof block.mark);
    for (std::size_t at = 0; at + 2 * sizeof block.mark <= block.bytes; at += kMarkStep) {
      damaged_ += block.mark != readMark(block.begin + at);
    }
    spied_->deallocate(block.begin);
  }

  void check() const {
    const Statistics stats = spied_->statistics();
    ASSERT_EQ(stats.allocated_bytes, live_bytes_);
    ASSERT_EQ(stats.mapped_bytes, spied_.log->mapped_bytes);
    ASSERT_GE(stats.mapped_bytes, stats.allocated_bytes + stats.cached_bytes);
    ASSERT_GE(stats.mapped_peak_bytes, stats.mapped_bytes);
    ASSERT_EQ(overlaps_, 0);
    ASSERT_EQ(damaged_, 0);
    ASSERT_EQ(wrong_sizes_, 0);
  }

  void freeAll() {
    while (!live_.empty()) freeAny();
  }

  std::int64_t refusals() const { return refusals_; }

 private:
  struct Block {
    char* begin;
    std::size_t bytes;
    Bytes block_bytes;
    std::uint64_t mark;
  };

  static std::uint64_t readMark(const char* at) {
    std::uint64_t mark = 0;
    std::memcpy(&mark, at, sizeof mark);
    return mark;
  }

  // Half small, a quarter of a few large sizes that repeat, a quarter of any size up to 1 MiB.
  std::size_t anySize() {
    static constexpr std::array<std::size_t, 4> kRepeated{64 << 10, 200'000, 1 << 20, 5 << 20};
    switch (random_() % 4) {
      case 0:
        return kRepeated[random_() % kRepeated.size()];
      case 1:
        return 16 + random_() % (1 << 20);
      default:
        return 16 + random_() % (std::size_t{16} << random_() % 12);
    }
  }

  void allocate() {
    const std::size_t bytes = anySize();
    auto* begin = static_cast<char*>(spied_->allocate(bytes));
    if (begin == nullptr) {
      ++refusals_;
      return;
    }
    const Block block{begin, bytes, CachingResource::blockBytes(begin), random_()};
    // The header belongs to the block.
    const char* low = begin - kHeader;
    const char* high = low + block.block_bytes;
    const auto after = intervals_.lower_bound(begin);
    if (after != intervals_.end() && after->first - kHeader < high) ++overlaps_;
    if (after != intervals_.begin() && std::prev(after)->second > low) ++overlaps_;
    if (!spied_.log->covers(low, block.block_bytes)) ++overlaps_;
    wrong_sizes_ += block.block_bytes != CachingResource::blockBytesFor(bytes);
    intervals_.emplace(begin, high);
    for (std::size_t at = 0; at + 2 * sizeof block.mark <= bytes; at += kMarkStep) {
      std::memcpy(begin + at, &block.mark, sizeof block.mark);
    }
    std::memcpy(begin + bytes - sizeof block.mark, &block.mark, sizeof block.mark);
    live_.push_back(block);
    live_bytes_ += block.block_bytes;
  }

  SpiedResource& spied_;
  std::mt19937_64 random_;
  std::map<char*, const char*> intervals_;  // first byte of the caller -> end of the block
  std::vector<Block> live_;
  Bytes live_bytes_ = 0;
  std::int64_t reclaims_ = 0;
  std::int64_t refusals_ = 0;
  int overlaps_ = 0;
  int damaged_ = 0;
  int wrong_sizes_ = 0;
};

class FuzzTest : public testing::TestWithParam<Source> {};

INSTANTIATE_TEST_SUITE_P(Backends, FuzzTest, testing::Values(Source::kHost, Source::kHeap),
                         [](const auto& instance) {
                           return std::string(instance.param == Source::kHost ? "Host" : "Heap");
                         });

TEST_P(FuzzTest, AMillionOperationsKeepTheInvariants) {
  SpiedResource spied(GetParam());
  spied.limit(kBudget);
  Shadow shadow(spied, /*seed=*/20240607);
  spied->setReclaimer(&shadow);
  for (int operation = 0; operation < 1'000'000; ++operation) {
    shadow.step();
    if (operation % 64 != 0) continue;
    ASSERT_NO_FATAL_FAILURE(shadow.check()) << operation;
  }
  shadow.freeAll();
  spied->setReclaimer(nullptr);
  const Statistics stats = spied->statistics();
  EXPECT_EQ(stats.budget_violations, 0);
  // The run went through every path.
  EXPECT_GT(stats.reclaims, 1000);
  EXPECT_GT(shadow.refusals(), 100);
  EXPECT_GT(spied.log->gathers, 1000);
  EXPECT_GT(spied.log->maps, 1000);
}

}  // namespace
}  // namespace ebbtide::allocator::test
