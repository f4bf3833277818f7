// What every resource must do, over every kind of page, with the grain of the host and of a GPU.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "stack.hpp"

namespace ebbtide::allocator::test {
namespace {

constexpr Stream kSide{7};

class ContractTest : public testing::TestWithParam<Shape> {
 protected:
  ~ContractTest() override { stack_.expectSound(); }

  Bytes grain() const { return GetParam().alignment_bytes; }
  void* allocate(std::size_t bytes, Stream stream = Stream::kDefault) {
    return stack_->allocate(bytes, stream);
  }

  Stack stack_{GetParam()};
};

std::vector<Shape> allShapes() {
  std::vector<Shape> shapes;
  for (int kind = 0; kind <= static_cast<int>(Shape::Kind::kDevice); ++kind) {
    for (const Bytes page : {Bytes{0}, kPage, kHugePage}) {
      for (const Bytes grain : {64, 512}) {
        shapes.push_back(
            {.kind = static_cast<Shape::Kind>(kind), .page_bytes = page, .alignment_bytes = grain});
      }
    }
  }
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Resources, ContractTest, testing::ValuesIn(allShapes()),
                         [](const auto& instance) { return nameOf(instance.param); });

TEST_P(ContractTest, ZeroBytesAndNullAreNothing) {
  EXPECT_EQ(allocate(0), nullptr);
  stack_->deallocate(nullptr);
  stack_->recordStream(nullptr, kSide);
  EXPECT_EQ(stack_->blockBytes(nullptr), 0);
  EXPECT_EQ(stack_.memory().blockBytesFor(0), 0);
  EXPECT_EQ(stack_.memory().statistics().allocations, 0);
}

TEST_P(ContractTest, EverySizeIsAlignedWritableAndCountedAsPredicted) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 1; bytes <= 1100; ++bytes) sizes.push_back(bytes);
  for (std::size_t power = 11; power <= 24; ++power) {
    const std::size_t bytes = std::size_t{1} << power;
    for (const std::size_t around : {bytes - 1, bytes, bytes + 1}) sizes.push_back(around);
  }
  for (const std::size_t bytes : sizes) {
    auto* block = static_cast<unsigned char*>(allocate(bytes));
    ASSERT_NE(block, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % static_cast<std::uintptr_t>(grain()), 0U)
        << bytes;
    std::memset(block, 0xa5, bytes);
    const Bytes block_bytes = stack_->blockBytes(block);
    EXPECT_GE(block_bytes, static_cast<Bytes>(bytes));
    EXPECT_EQ(block_bytes, stack_.memory().blockBytesFor(bytes)) << bytes;
    EXPECT_EQ(block_bytes, stack_.budgetTracker().liveBytes()) << bytes;
    if (stack_.isSpied()) {
      EXPECT_TRUE(stack_.spy().covers(block, block_bytes)) << bytes;
    }
    stack_->deallocate(block);
  }
  EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
}

TEST_P(ContractTest, SmallBlocksWasteLessThanAnEighth) {
  // From 8 grains on: below, a grain is more than an eighth.
  for (Bytes bytes = 8 * grain(); bytes <= 512 * grain(); bytes += grain() / 8) {
    const Bytes slot = stack_.memory().blockBytesFor(size(bytes));
    const Bytes used = (bytes + grain() - 1) / grain() * grain();
    ASSERT_GE(slot, bytes);
    ASSERT_LT((slot - used) * 8, slot) << bytes;
    ASSERT_LE(slot, stack_.memory().blockBytesFor(size(bytes) + 1)) << bytes;
  }
}

TEST_P(ContractTest, ImpossibleSizesAreRefusedWithoutOverflow) {
  // A free extent that does not begin at the pool's begin: sums that wrap around would find it.
  void* first = allocate(size(kMiB));
  stack_->deallocate(allocate(size(kMiB)));
  const Bytes mapped = stack_.budgetTracker().mappedBytes();
  for (const std::size_t bytes : {SIZE_MAX, SIZE_MAX - 4095, std::size_t{1} << 63,
                                  (std::size_t{1} << 63) - 1, (std::size_t{1} << 56) + 1}) {
    EXPECT_EQ(allocate(bytes), nullptr) << bytes;
    EXPECT_EQ(stack_.memory().blockBytesFor(bytes), kUnlimited) << bytes;
  }
  for (std::size_t power = 40; power <= 56; ++power) {
    // 2^44 bytes are 2^32 units; 10 units more must not look like 10 units.
    const std::size_t bytes = (std::size_t{1} << power) - (power == 56 ? 0 : 1);
    EXPECT_EQ(allocate(bytes), nullptr) << power;
    if (power < 56) {
      EXPECT_EQ(allocate(bytes + 1 + 10 * 4096), nullptr) << power;
    }
  }
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), mapped);
  EXPECT_EQ(stack_.budgetTracker().liveBytes(), stack_->blockBytes(first));
  stack_->deallocate(first);
}

TEST_P(ContractTest, BlocksDoNotOverlapAndKeepTheirContents) {
  std::mt19937_64 random(3);
  std::map<char*, std::size_t> live;
  const auto markOf = [](const char* block) {
    return static_cast<char>(reinterpret_cast<std::uintptr_t>(block) >> 6);
  };
  const auto freeOne = [&](std::map<char*, std::size_t>::iterator from) {
    const auto [block, bytes] = *from;
    for (std::size_t i = 0; i < bytes; i += 64) ASSERT_EQ(block[i], markOf(block));
    ASSERT_EQ(block[bytes - 1], markOf(block));
    stack_->deallocate(block);
    live.erase(from);
  };
  Bytes live_bytes = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::size_t bytes =
        1 + random() % (random() % 4 == 0 ? 300 * 1024 : std::size_t{64} << random() % 8);
    auto* block = static_cast<char*>(allocate(bytes));
    ASSERT_NE(block, nullptr);
    const auto after = live.lower_bound(block);
    if (after != live.end()) {
      ASSERT_LE(block + stack_->blockBytes(block), after->first);
    }
    if (after != live.begin()) {
      ASSERT_LE(std::prev(after)->first + stack_->blockBytes(std::prev(after)->first), block);
    }
    std::memset(block, markOf(block), bytes);
    live.emplace(block, bytes);
    live_bytes = 0;
    for (const auto& [each, unused] : live) live_bytes += stack_->blockBytes(each);
    ASSERT_EQ(live_bytes, stack_.budgetTracker().liveBytes());
    if (live.size() > 100) {
      freeOne(std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size())));
    }
  }
  while (!live.empty()) freeOne(live.begin());
  EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
  stack_.memory().releaseCached();
  stack_.expectSound();
}

TEST_P(ContractTest, AllThatIsFreeGoesBackAndTheBooksAreEven) {
  std::vector<void*> blocks;
  for (std::size_t i = 1; i <= 300; ++i) blocks.push_back(allocate(i * i * 16));
  for (void* block : blocks) stack_->deallocate(block);
  EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
  stack_.memory().releaseCached();
  const Statistics stats = stack_.memory().statistics();
  EXPECT_EQ(stats.mapped_bytes, 0);
  EXPECT_EQ(stats.cached_bytes, 0);
  EXPECT_EQ(stats.allocations, 300);
  if (stack_.isSpied()) {
    EXPECT_EQ(stack_.spy().mappedBytes(), 0);
  }
}

TEST_P(ContractTest, ABlockMayBeFreedOnAnotherThread) {
  std::array<void*, 2> blocks{allocate(100), allocate(size(kMiB))};
  std::thread([&] {
    for (void* block : blocks) stack_->deallocate(block);
  }).join();
  EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
  // And is allocated there, and freed here.
  void* block = nullptr;
  std::thread([&] { block = allocate(size(kMiB)); }).join();
  stack_->deallocate(block);
  EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
}

TEST_P(ContractTest, AFreedBlockIsReusedOnItsStreamOnly) {
  for (const std::size_t bytes : {std::size_t{100}, size(kMiB)}) {
    void* block = allocate(bytes);
    stack_->deallocate(block);
    // Work of the first stream may still use it.
    void* other = allocate(bytes, kSide);
    EXPECT_NE(other, block);
    stack_->deallocate(other);
  }
}

// A shared block waits for the other stream; until then nobody gets it, afterwards somebody does.
TEST_P(ContractTest, ABlockOfTwoStreamsIsReusedWhenBothAreDone) {
  for (const std::size_t bytes : {std::size_t{100}, size(kMiB)}) {
    void* block = allocate(bytes);
    stack_->recordStream(block, kSide);
    stack_->recordStream(block, kSide);  // told twice, waited for once
    const int records = stack_.events().records;
    stack_->deallocate(block);
    EXPECT_EQ(stack_.events().records, records + 1);
    EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);  // freed for the statistics
    std::vector<void*> others;
    for (int i = 0; i < 20; ++i) others.push_back(allocate(bytes));
    for (void* other : others) {
      EXPECT_NE(other, block);
      stack_->deallocate(other);
    }
    stack_.events().finish(kSide);
    // Two at once hold all the free blocks of the beginning and this one.
    others.clear();
    bool came_back = false;
    for (int i = 0; i < 40; ++i) {
      others.push_back(allocate(bytes));
      came_back |= others.back() == block;
    }
    if (GetParam().kind != Shape::Kind::kFollowing) {
      EXPECT_TRUE(came_back) << bytes;
    }
    for (void* other : others) stack_->deallocate(other);
    EXPECT_EQ(stack_.events().unrecycled(), 0U);
    EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
  }
}

TEST_P(ContractTest, ItsOwnStreamIsNothingToWaitFor) {
  void* block = allocate(100);
  stack_->recordStream(block, Stream::kDefault);
  stack_->deallocate(block);
  EXPECT_EQ(stack_.events().records, 0);
  void* again = allocate(100);
  EXPECT_EQ(again, block);
  stack_->deallocate(again);
}

TEST_P(ContractTest, WhatTheSystemRefusesChangesNothing) {
  if (!stack_.isSpied()) GTEST_SKIP() << "nothing to refuse";
  const Bytes mapped = stack_.budgetTracker().mappedBytes();
  stack_.spy().refuse_maps = 100;
  stack_.memory().limitOverrun(0);
  EXPECT_EQ(allocate(size(20 * kMiB)), nullptr);
  EXPECT_EQ(allocate(100), nullptr);
  EXPECT_LE(stack_.budgetTracker().mappedBytes(), mapped);  // free pages went, to no avail
  EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
  stack_.expectSound();
  stack_.spy().refuse_maps = 0;
  void* block = allocate(size(20 * kMiB));
  EXPECT_NE(block, nullptr);
  stack_->deallocate(block);
}

}  // namespace
}  // namespace ebbtide::allocator::test
