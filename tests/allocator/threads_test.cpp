// Many threads on many streams, and blocks that change hands; worth most under a thread sanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "stack.hpp"

namespace ebbtide::allocator::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRounds = 1500;
#else
constexpr int kRounds = 15'000;
#endif
constexpr int kThreads = 8;
constexpr std::uint64_t kStreams = 4;

struct Config {
  const char* name;
  Shape shape;
  Bytes budget_bytes;
  bool follows_steps;
};

// Frees what the threads put into it.
class Exchange final : public Reclaimer {
 public:
  struct Item {
    std::uint64_t* block;
    std::size_t words;
    std::uint64_t mark;
  };

  explicit Exchange(Stack& stack) : stack_(stack) {}

  Item swap(Item item, std::uint64_t dice) {
    const std::lock_guard lock(mutex_);
    items_.push_back(item);
    std::swap(items_.back(), items_[dice % items_.size()]);
    if (items_.size() < 48) return {};
    return pop();
  }
  bool freeAny() {
    Item item{};
    {
      const std::lock_guard lock(mutex_);
      if (items_.empty()) return false;
      item = pop();
    }
    return free(item);
  }
  // Each block carries its owner's mark from allocation to free.
  bool free(const Item& item) {
    if (item.block == nullptr) return false;
    if (item.block[0] != item.mark || item.block[item.words - 1] != item.mark) ++damaged;
    stack_->deallocate(item.block);
    return true;
  }
  Bytes reclaim(const ReclaimRequest& request) noexcept override {
    for (int i = 0; i < 8 && freeAny(); ++i) {
    }
    return request.need_bytes;
  }

  std::atomic<int> damaged{0};

 private:
  Item pop() {
    const Item item = items_.back();
    items_.pop_back();
    return item;
  }

  Stack& stack_;
  std::mutex mutex_;
  std::vector<Item> items_;
};

class ThreadsTest : public testing::TestWithParam<Config> {
 protected:
  void work(std::uint64_t thread) {
    std::mt19937_64 random(thread);
    for (int round = 0; round < kRounds; ++round) {
      const Stream stream{random() % kStreams};
      const std::size_t words = 2 + random() % (random() % 8 == 0 ? 64 * 1024 : 512);
      if (GetParam().follows_steps && round % 100 == 0) {
        stack_.placed().beginStep(stream, sequence_, /*this_thread_only=*/thread % 2 == 0);
      }
      const std::uint64_t dice = random();
      auto* block = static_cast<std::uint64_t*>(
          stack_->allocate(dice % 16 == 0 ? size(kMiB) : words * sizeof(std::uint64_t), stream));
      if (block == nullptr) {
        ++refusals_;
        exchange_.freeAny();
        continue;
      }
      block[0] = block[words - 1] = dice;
      if (dice % 5 == 0) stack_->recordStream(block, Stream{random() % kStreams});
      exchange_.free(exchange_.swap({block, words, dice}, random()));
      disturb(random());
    }
  }

  void disturb(std::uint64_t dice) {
    if (dice % 64 == 0) stack_.events().finish(Stream{dice / 64 % kStreams});
    if (dice % 1024 == 1) stack_.memory().releaseCached();
    if (dice % 1024 == 2) stack_.memory().resetPeaks();
    if (dice % 512 == 3) {
      const Statistics stats = stack_.memory().statistics();
      if (stats.mapped_bytes > GetParam().budget_bytes) ++over_budget_;
    }
    if (dice % 2048 == 4 && GetParam().budget_bytes != kUnlimited) {
      stack_.memory().setBudget(GetParam().budget_bytes / 2);
      stack_.memory().setBudget(GetParam().budget_bytes);
    }
  }

  Stack stack_{GetParam().shape};
  Exchange exchange_{stack_};
  const std::shared_ptr<const PlacedSequence> sequence_ = roundRobin();
  std::atomic<int> refusals_{0}, over_budget_{0};
};

INSTANTIATE_TEST_SUITE_P(
    Configs, ThreadsTest,
    testing::Values(
        Config{"Tight", {.page_bytes = kPage}, 16 * kMiB, false},
        Config{"Unlimited", {.page_bytes = kPage, .alignment_bytes = 512}, kUnlimited, false},
        Config{"HugePages", {.page_bytes = kHugePage, .alignment_bytes = 512}, 64 * kMiB, false},
        Config{"Steps", {.page_bytes = kPage}, 24 * kMiB, true},
        Config{"StepsUnlimited", {.page_bytes = kHugePage}, kUnlimited, true}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(ThreadsTest, KeepTheirBlocksApart) {
  stack_.limit(GetParam().budget_bytes);
  stack_.memory().setReclaimer(&exchange_);
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] { work(thread); });
  }
  for (std::thread& thread : threads) thread.join();
  stack_.memory().setReclaimer(nullptr);
  while (exchange_.freeAny()) {
  }
  EXPECT_EQ(exchange_.damaged, 0);
  EXPECT_EQ(over_budget_, 0);
  stack_.expectSound();
  EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
  stack_.events().finishAll();
  stack_.memory().releaseCached();
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 0);
  EXPECT_EQ(stack_.events().unrecycled(), 0U);
  EXPECT_EQ(stack_.memory().statistics().budget_violations, 0);
  EXPECT_EQ(stack_.memory().statistics().allocations, kThreads * kRounds - refusals_);
}

}  // namespace
}  // namespace ebbtide::allocator::test
