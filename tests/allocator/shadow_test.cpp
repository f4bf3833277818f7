// The shadow notices what it is there for: each fault of a resource that lies.
#include "shadow.hpp"

#include <gtest/gtest.h>

#include <array>

namespace ebbtide::allocator::test {
namespace {

class LyingResource final : public MemoryResource {
 public:
  explicit LyingResource(BudgetTracker& tracker) : live_(tracker) {}

  void* allocate(std::size_t bytes, Stream) noexcept override {
    if (bytes == 0) return nullptr;
    live_.noteAllocated(static_cast<Bytes>(bytes) + lie_of_tracker);
    return memory_.data() + next_at;
  }
  void deallocate(void*) noexcept override { live_.noteFreed(64); }
  Bytes blockBytes(const void*) const noexcept override { return block_bytes; }
  void recordStream(void*, Stream) noexcept override {}

  char* data() { return memory_.data(); }

  std::size_t next_at = 0;
  Bytes block_bytes = 64;
  Bytes lie_of_tracker = 0;

 private:
  BudgetTracker::LiveCount live_;
  std::array<char, 4096> memory_{};
};

class ShadowTest : public testing::Test {
 protected:
  std::int64_t allocateAt(std::size_t at, Stream stream = Stream::kDefault) {
    resource_.next_at = at;
    return shadow_.allocate(64, stream);
  }

  BudgetTracker tracker_;
  LyingResource resource_{tracker_};
  Bytes mapped_ = 0;
  bool covered_ = true;
  std::uint64_t synchronizes_ = 0, finishes_ = 0;
  Shadow shadow_{resource_,
                 tracker_,
                 {.mapped_bytes = [this] { return mapped_ > 0 ? mapped_ : tracker_.mappedBytes(); },
                  .covers = [this](const void*, Bytes) { return covered_; },
                  .block_bytes_for = [](std::size_t) { return 64; },
                  .synchronizes = [this] { return synchronizes_; },
                  .finishes = [this](Stream) { return finishes_; }},
                 /*sample_every=*/1};

  ShadowTest() { tracker_.debitAnyway(4096); }
};

TEST_F(ShadowTest, WhatIsRightPasses) {
  EXPECT_EQ(allocateAt(0), 0);
  EXPECT_EQ(allocateAt(64), 1);
  shadow_.free(0);
  EXPECT_EQ(allocateAt(0), 1);
  EXPECT_EQ(shadow_.allocate(0, Stream::kDefault), -1);
  EXPECT_EQ(shadow_.refusals(), 1U);
  shadow_.free(0);
  shadow_.free(0);
  synchronizes_ = 1;
  shadow_.expectUnused(resource_.data(), 128);
  EXPECT_EQ(shadow_.failures(), 0U) << shadow_.firstFailure();
}

TEST_F(ShadowTest, AnOverlapIsSeen) {
  allocateAt(100);
  allocateAt(163);
  EXPECT_EQ(shadow_.firstFailure(), "overlaps a live block at operation 2");
}

TEST_F(ShadowTest, ChangedBytesAreSeen) {
  allocateAt(0);
  resource_.data()[63] ^= 1;
  shadow_.free(0);
  EXPECT_EQ(shadow_.firstFailure(), "its bytes changed at operation 2");
}

TEST_F(ShadowTest, WrongBooksAreSeen) {
  resource_.lie_of_tracker = 1;
  allocateAt(0);
  EXPECT_EQ(shadow_.firstFailure(), "the budget tracker's live bytes are wrong at operation 1");
}

TEST_F(ShadowTest, AnotherMappedSumIsSeen) {
  mapped_ = 8192;
  allocateAt(0);
  EXPECT_EQ(shadow_.firstFailure(), "the budget tracker's mapped bytes are wrong at operation 1");
}

TEST_F(ShadowTest, UnmappedPagesAreSeen) {
  covered_ = false;
  allocateAt(0);
  EXPECT_EQ(shadow_.firstFailure(), "not mapped at operation 1");
}

TEST_F(ShadowTest, AnotherSizeIsSeen) {
  resource_.block_bytes = 128;
  allocateAt(0);
  EXPECT_EQ(shadow_.firstFailure(), "another size than foretold at operation 1");
}

TEST_F(ShadowTest, AnotherStreamsWorkIsSeen) {
  allocateAt(0);
  shadow_.free(0);
  allocateAt(0, Stream{3});
  EXPECT_EQ(shadow_.firstFailure(), "another stream may still use it at operation 3");
}

TEST_F(ShadowTest, ASharedBlockThatIsReusedTooSoonIsSeen) {
  shadow_.share(static_cast<std::size_t>(allocateAt(0)), Stream{3});
  shadow_.free(0);
  allocateAt(0);
  EXPECT_EQ(shadow_.firstFailure(), "it is shared, and awaited at operation 3");
}

TEST_F(ShadowTest, ASharedBlockMayBeReusedWhenItsStreamIsDone) {
  shadow_.share(static_cast<std::size_t>(allocateAt(0)), Stream{3});
  shadow_.free(0);
  finishes_ = 1;
  allocateAt(0);
  EXPECT_EQ(shadow_.failures(), 0U);
}

TEST_F(ShadowTest, AnUnmapUnderABlockOrUnderWorkIsSeen) {
  allocateAt(0);
  shadow_.expectUnused(resource_.data() + 63, 1);
  EXPECT_EQ(shadow_.firstFailure(), "unmapped alive at operation 1");
  shadow_.free(0);
  shadow_.expectUnused(resource_.data(), 64);
  EXPECT_EQ(shadow_.failures(), 2U);
  synchronizes_ = 1;
  shadow_.expectUnused(resource_.data(), 64);
  EXPECT_EQ(shadow_.failures(), 2U);
}

}  // namespace
}  // namespace ebbtide::allocator::test
