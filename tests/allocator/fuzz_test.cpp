// A million random operations in several configurations, each checked by the shadow.
#include <gtest/gtest.h>

#include <string>

#include "random_trace.hpp"
#include "stack.hpp"

namespace ebbtide::allocator::test {
namespace {

struct Config {
  const char* name;
  Shape shape;
  Bytes budget_bytes;
  RandomTrace::Options trace;
  bool follows_steps;
};

class FuzzTest : public testing::TestWithParam<Config> {
 protected:
  FuzzTest() {
    stack_.limit(GetParam().budget_bytes);
    stack_.spy().on_unmap = [this](void* begin, Bytes bytes) {
      shadow_.expectUnused(begin, bytes);
    };
  }
  ~FuzzTest() override { stack_.spy().on_unmap = nullptr; }

  static constexpr std::uint64_t kOperations = 120'000;

  // The world around: events end, the budget moves, the system refuses.
  void disturb() {
    std::mt19937_64& random = trace_.random();
    const std::uint64_t dice = random() % 5000;
    const Bytes budget = GetParam().budget_bytes;
    if (dice < 500) {
      stack_.events().finish(Stream{random() % GetParam().trace.streams});
    } else if (dice < 502) {
      stack_.memory().releaseCached();
    } else if (dice < 506) {
      stack_.spy().refuse_maps = 1 + static_cast<int>(random() % 3);
    } else if (dice < 509 && budget != kUnlimited) {
      // Below what lives, too: then the ceiling is what was mapped, until it has come down.
      const Bytes lower = budget / 8 + static_cast<Bytes>(random()) % (budget / 2);
      stack_.memory().setBudget(random() % 2 == 0 ? budget : std::abs(lower));
    } else if (dice < 511) {
      stack_.events().refuse_records = random() % 4 == 0;
    } else if (dice < 513) {
      stack_.memory().setMargin(budget == kUnlimited ? 0 : static_cast<Bytes>(random() % kMiB));
    }
  }

  void check() {
    ASSERT_EQ(shadow_.failures(), 0U) << shadow_.firstFailure();
    ASSERT_EQ(stack_.spy().badCalls(), 0);
    ASSERT_EQ(stack_.spy().over_ceiling, 0);
    ASSERT_EQ(stack_.events().badCalls(), 0);
  }

  // Extents are apart, and their sums are what the budget tracker has.
  void checkExtents() {
    const std::byte* end = nullptr;
    Bytes mapped_bytes = 0, live_bytes = 0;
    for (const MappedExtent& extent : stack_.memory().mappedExtents()) {
      ASSERT_GE(extent.begin, end);
      ASSERT_GT(extent.bytes, 0);
      ASSERT_TRUE(stack_.spy().covers(extent.begin, extent.bytes));
      if (extent.live) {
        ASSERT_EQ(stack_.memory().blockBytes(extent.begin), extent.bytes);
        live_bytes += extent.bytes;
      }
      mapped_bytes += extent.bytes;
      end = extent.begin + extent.bytes;
    }
    ASSERT_EQ(mapped_bytes, stack_.budgetTracker().mappedBytes());
    // What was freed and waits for another stream counts as live here alone.
    ASSERT_GE(live_bytes, stack_.budgetTracker().liveBytes());
    if (GetParam().trace.share_percent == 0) {
      ASSERT_EQ(live_bytes, stack_.budgetTracker().liveBytes());
    }
  }

  Witness witness() {
    return {
        .mapped_bytes = [this] { return stack_.spy().mappedBytes(); },
        .covers = [this](const void* begin,
                         Bytes bytes) { return stack_.spy().covers(begin, bytes); },
        .block_bytes_for =
            [this](std::size_t bytes) { return stack_.memory().blockBytesFor(bytes); },
        .synchronizes = [this] { return static_cast<std::uint64_t>(stack_.events().synchronizes); },
        .finishes = [this](Stream stream) { return stack_.events().finishes(stream); }};
  }

  Stack stack_{GetParam().shape};
  Shadow shadow_{stack_.top(), stack_.budgetTracker(), witness(), /*sample_every=*/7};
  RandomTrace trace_{shadow_, GetParam().trace, /*seed=*/20240607};
};

std::vector<Config> configs() {
  using Kind = Shape::Kind;
  const auto shape = [](Bytes page_bytes, Bytes alignment_bytes) {
    return Shape{
        .kind = Kind::kDevice, .page_bytes = page_bytes, .alignment_bytes = alignment_bytes};
  };
  return {
      {"TightHost", shape(kPage, 64), 40 * kMiB, {}, false},
      {"TightHugePages", shape(kHugePage, 512), 64 * kMiB, {}, false},
      {"UnlimitedHost", shape(kPage, 64), kUnlimited, {}, false},
      {"UnlimitedHugePages", shape(kHugePage, 512), kUnlimited, {}, false},
      {"FourStreams", shape(kPage, 512), 40 * kMiB, {.streams = 4, .share_percent = 20}, false},
      {"FourStreamsHugePages",
       shape(kHugePage, 512),
       96 * kMiB,
       {.streams = 4, .share_percent = 20},
       false},
      {"ThreeStreamsUnlimited",
       shape(kHugePage, 512),
       kUnlimited,
       {.streams = 3, .share_percent = 50},
       false},
      {"StepsTight", shape(kPage, 64), 40 * kMiB, {.deviate_percent = 4}, true},
      {"StepsUnlimited", shape(kPage, 64), kUnlimited, {.deviate_percent = 2}, true},
      {"StepsHugePages",
       shape(kHugePage, 512),
       128 * kMiB,
       {.streams = 2, .share_percent = 10, .deviate_percent = 5},
       true},
      {"StepsExact", shape(kPage, 64), kUnlimited, {.deviate_percent = 0}, true},
  };
}

INSTANTIATE_TEST_SUITE_P(Configs, FuzzTest, testing::ValuesIn(configs()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST_P(FuzzTest, EveryOperationIsSound) {
  std::uint64_t steps = 0;
  while (shadow_.operations() < kOperations) {
    if (GetParam().follows_steps) {
      if (steps++ % 10 == 0) trace_.planStep();
      trace_.runStep(stack_.placed(), Stream{trace_.random()() % GetParam().trace.streams});
      for (int i = 0; i < 200; ++i) disturb();
    } else {
      trace_.step();
      disturb();
    }
    if (shadow_.operations() % 16 == 0) {
      ASSERT_NO_FATAL_FAILURE(check());
    }
    if (shadow_.operations() % 1024 < 8) {
      ASSERT_NO_FATAL_FAILURE(checkExtents());
    }
  }
  ASSERT_NO_FATAL_FAILURE(checkExtents());
  trace_.freeAll();
  stack_.events().finishAll();
  stack_.memory().releaseCached();
  check();
  EXPECT_EQ(stack_.budgetTracker().liveBytes(), 0);
  EXPECT_EQ(stack_.budgetTracker().mappedBytes(), 0);
  EXPECT_EQ(stack_.events().unrecycled(), 0U);
  EXPECT_EQ(stack_.memory().statistics().budget_violations, 0);
  // The run went where it was to go.
  const Statistics stats = stack_.memory().statistics();
  if (GetParam().follows_steps) {
    EXPECT_GT(stats.planned_allocations, 1000);
  }
  if (GetParam().budget_bytes != kUnlimited) {
    EXPECT_GT(shadow_.refusals(), 100U);
    EXPECT_GT(stack_.spy().unmaps, 100);
  }
}

}  // namespace
}  // namespace ebbtide::allocator::test
