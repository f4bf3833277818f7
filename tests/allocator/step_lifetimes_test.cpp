#include "ebbtide/allocator/step_lifetimes.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/allocator/host_address_space.hpp"

namespace ebbtide::allocator {
namespace {

constexpr Bytes kMiB = Bytes{1} << 20;

class StepLifetimesTest : public ::testing::Test {
 protected:
  void* allocate(Bytes bytes) {
    return memory_.allocate(static_cast<std::size_t>(bytes), Stream::kDefault);
  }
  RecordingResource& recording() { return memory_.recording(); }

  DeviceMemory memory_{makeHostAddressSpace(), makeHostEvents(), {.reserve_bytes = Bytes{1} << 30}};
};

// Each step: an activation a, a gradient g that the next step frees, a parameter's update p that
// stays in the first one.
//   begin a g | begin free(g) a g | end     a lives over one allocation; g until the next step's
TEST_F(StepLifetimesTest, LifetimesAreCountedInAllocations) {
  recording().start(kMiB);
  recording().mark();
  void* a = allocate(2 * kMiB);
  recording().mark();  // backward
  void* g = allocate(kMiB);
  memory_.deallocate(a);
  void* p = allocate(3 * kMiB);
  void* small = allocate(100);
  recording().mark();  // the next step
  memory_.deallocate(g);
  a = allocate(2 * kMiB);
  recording().mark();
  g = allocate(kMiB);
  memory_.deallocate(a);
  recording().mark();
  const StepLifetimes step = stepLifetimes(recording().stop(), 2);
  memory_.deallocate(g);
  memory_.deallocate(p);
  memory_.deallocate(small);

  EXPECT_EQ(step.period, 3);  // a, g, p; the small one is none of them
  EXPECT_EQ(step.units, (std::vector<std::uint32_t>{512, 256, 768}));
  EXPECT_EQ(step.phase_begins, (std::vector<std::uint32_t>{0, 1}));
  // p outlives the second step.
  EXPECT_EQ(step.placed, (std::vector<std::uint32_t>{0, 1}));
  ASSERT_EQ(step.lifetimes.size(), 2U);
  EXPECT_EQ(step.lifetimes[0].begin, 0);  // freed after g, the second allocation, was made
  EXPECT_EQ(step.lifetimes[0].end, 2);
  EXPECT_EQ(step.lifetimes[1].begin, 1);  // freed before the next step's first, the fourth
  EXPECT_EQ(step.lifetimes[1].end, 3);

  const std::vector<Bytes> offsets = {0, 2 * kMiB};
  const PlacedSequence sequence = placedSequence(step, offsets);
  ASSERT_EQ(sequence.blocks.size(), 3U);
  EXPECT_EQ(sequence.blocks[1].offset_units, 512U);
  EXPECT_EQ(sequence.blocks[2].offset_units, PlacedBlock::kNotPlaced);
  EXPECT_EQ(sequence.height_units, 768U);  // 2 MiB + 1 MiB
}

TEST_F(StepLifetimesTest, WhatLivesForMoreThanARoundGetsNoPlace) {
  recording().start(kMiB);
  recording().mark();
  void* first = allocate(kMiB);
  recording().mark();
  void* second = allocate(kMiB);
  memory_.deallocate(first);  // after the next round's came: both are there at once
  void* third = allocate(kMiB);
  recording().mark();
  const StepLifetimes step = stepLifetimes(recording().stop(), 1);
  EXPECT_EQ(step.period, 1);
  EXPECT_TRUE(step.placed.empty());
  memory_.deallocate(second);
  memory_.deallocate(third);
}

// As of a model of hundreds of layers, recomputed in part.
TEST_F(StepLifetimesTest, StepsOfAHundredThousandBlocksAreRecorded) {
  constexpr std::int64_t kBlocks = 100'000;
  recording().start(64 << 10);
  for (int step = 0; step < 2; ++step) {
    recording().mark();
    for (std::int64_t i = 0; i < kBlocks; ++i) memory_.deallocate(allocate(64 << 10));
  }
  recording().mark();
  const StepLifetimes step = stepLifetimes(recording().stop(), 1);
  EXPECT_EQ(step.period, kBlocks);
  EXPECT_EQ(step.placed.size(), static_cast<std::size_t>(kBlocks));
}

TEST_F(StepLifetimesTest, OtherMarksAreNoStep) {
  recording().start(kMiB);
  recording().mark();
  recording().mark();
  const RequestLog log = recording().stop();
  EXPECT_TRUE(stepLifetimes(log, 1).units.empty());
  EXPECT_TRUE(stepLifetimes({}, 1).units.empty());
}

// What began there belongs to the step before it.
TEST_F(StepLifetimesTest, TheLastMarkMayBeTakenBack) {
  recording().unmark();  // nothing is recorded
  recording().start(kMiB);
  recording().unmark();
  recording().mark();
  memory_.deallocate(allocate(kMiB));
  recording().mark();
  std::thread([this] { recording().unmark(); }).join();  // not the recorded one
  memory_.deallocate(allocate(kMiB));
  recording().unmark();
  recording().mark();
  EXPECT_EQ(recording().stop().marks, (std::vector<std::int64_t>{0, 2}));
}

TEST_F(StepLifetimesTest, OnlyItsThreadIsRecordedAndFreesOfAll) {
  recording().start(kMiB);
  void* mine = allocate(kMiB);
  void* others = nullptr;
  std::thread([&] {
    others = allocate(kMiB);
    memory_.deallocate(mine);
    recording().mark();
  }).join();
  memory_.deallocate(others);
  const RequestLog log = recording().stop();
  ASSERT_EQ(log.blocks.size(), 1U);
  EXPECT_EQ(log.blocks[0].death, 1);  // after one noted allocation
  EXPECT_TRUE(log.marks.empty());
}

TEST_F(StepLifetimesTest, StartForgetsWhatWasNotedBefore) {
  recording().start(kMiB);
  void* before = allocate(kMiB);
  recording().start(kMiB);
  memory_.deallocate(before);
  void* after = allocate(kMiB);
  const RequestLog log = recording().stop();
  EXPECT_FALSE(recording().records());
  ASSERT_EQ(log.blocks.size(), 1U);
  EXPECT_EQ(log.blocks[0].death, RequestLog::kAlive);
  memory_.deallocate(after);
}

}  // namespace
}  // namespace ebbtide::allocator
