#include "ebbtide/scheduler/kept_blocks.hpp"

#include <gtest/gtest.h>

#include "small_traces.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// Both values of the step are freed in it.
TEST(KeptBlocks, AreNoneWhereAStepFreesWhatItMakes) {
  EXPECT_TRUE(keptBlocks(twoOps()).empty());
}

// 30 B by the first node, 300 B twice after the last one, and the 100 B of op 1, never freed.
TEST(KeptBlocks, AreOfWhatMadeThem) {
  Trace trace = twoOps();
  trace.nodes = {"SinBackward0"};
  std::erase_if(trace.events,
                [](const TraceEvent& event) { return event.kind == Kind::kFree && event.id == 2; });
  trace.blocks.push_back({30, false, false});
  trace.blocks.insert(trace.blocks.end(), 2, {300, false, false});
  trace.events.insert(trace.events.begin() + 9, {Kind::kAlloc, 3, 8});
  trace.events.push_back({Kind::kAlloc, 4, 13});
  trace.events.push_back({Kind::kAlloc, 5, 14});
  const std::vector<KeptBlocks> kept = keptBlocks(trace);
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].by, "the optimizer's step");
  EXPECT_FALSE(kept[0].known);
  EXPECT_EQ(kept[0].bytes, 600);
  EXPECT_EQ(kept[1].by, "second");
  EXPECT_EQ(kept[1].bytes, 100);
  EXPECT_EQ(kept[2].by, "SinBackward0");
  EXPECT_EQ(kept[2].bytes, 30);
}

// A new gradient of 70 B; the old one is freed.
TEST(KeptBlocks, AreNotWhatReplacesAnother) {
  Trace trace = twoOps();
  trace.blocks.push_back({70, false, false});
  trace.blocks.push_back({70, true, false});
  trace.events.push_back({Kind::kAlloc, 3, 13});
  trace.events.push_back({Kind::kFree, 4, 14});
  EXPECT_TRUE(keptBlocks(trace).empty());
}

// The 100 B of op 1 are kept; a gradient of as many bytes, made after it, replaces an older one.
TEST(KeptBlocks, AGradientReplacesAGradient) {
  Trace trace = twoOps();
  trace.nodes = {"SinBackward0"};
  std::erase_if(trace.events,
                [](const TraceEvent& event) { return event.kind == Kind::kFree && event.id == 2; });
  trace.blocks.push_back({100, false, false});
  trace.blocks.push_back({100, true, false});
  trace.events.insert(trace.events.begin() + 9, {Kind::kAlloc, 3, 8});
  trace.events.push_back({Kind::kFree, 4, 13});
  const std::vector<KeptBlocks> kept = keptBlocks(trace);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].by, "second");
}

}  // namespace
}  // namespace ebbtide::scheduler
