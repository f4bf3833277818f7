#include "observe/executor_counters.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(ExecutorCounters, TellAStepFromWhatCameBefore) {
  metrics::RankMetrics metrics({0, 0});
  ExecutorCounters counters(metrics);
  const std::size_t mm = counters.numberOf("aten::mm");
  counters.addReplay(mm, 100);
  counters.addSpill(4096);
  counters.addCode(0, 7);
  const ExecutorCounters::Totals before = counters.totals();
  counters.addReplay(mm, 50);
  counters.addReplay(mm, 50);
  counters.addReplaysAhead(2, 60);
  counters.addOnlineDrop(512);
  counters.addOnlineReplay();
  counters.addCode(1, 3);
  counters.addOffload(1024, 20);
  counters.addOutOfMemory();
  counters.addReplan();
  counters.addFollowedStep();
  const ExecutorCounters::Totals step = counters.totals() - before;
  EXPECT_EQ(step.recomputed_ops, 2);
  EXPECT_EQ(step.recompute_ns, 100);
  EXPECT_EQ(step.replays_ahead, 2);
  EXPECT_EQ(step.ahead_ns, 60);
  EXPECT_EQ(step.spilled_bytes, 0);
  EXPECT_EQ(step.dropped_online_bytes, 512);
  EXPECT_EQ(step.replayed_online_ops, 1);
  EXPECT_EQ(step.decoded_values, 1);
  EXPECT_EQ(step.codec_ns, 3);
  EXPECT_EQ(step.offloaded_bytes, 1024);
  EXPECT_EQ(step.offload_ns, 20);
  EXPECT_EQ(step.ooms, 1);
  EXPECT_EQ(step.replans, 1);
  EXPECT_EQ(step.followed_steps, 1);
  EXPECT_EQ(counters.totals().recomputed_ops, 3);
  EXPECT_EQ(counters.totals().spilled_bytes, 4096);
}

// All of it is series too: 1 + 1 ops of 0.5 s each, and what follows.
TEST(ExecutorCounters, ReachTheMetrics) {
  metrics::RankMetrics metrics({0, 0});
  ExecutorCounters counters(metrics);
  counters.addReplay(counters.numberOf("aten::mm"), 500'000'000);
  counters.addReplay(counters.numberOf("aten::mm"), 500'000'000);
  counters.addReplaysAhead(2, 1'000'000'000);
  counters.addSpill(4096);
  counters.addOnlineDrop(512);
  counters.addCode(3, 2'000'000'000);
  counters.addOffload(1024, 3'000'000'000);
  counters.addOutOfMemory();
  counters.addReplan();
  counters.addFollowedStep();
  metrics.noteStepEnd();
  const std::string text = metrics.render();
  const auto valueOf = [&text](const std::string& series) {
    const std::size_t line = text.find("\n" + series + "{");
    if (line == std::string::npos) return -1.0;
    return std::stod(text.substr(text.find(' ', line + 1)));
  };
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_recomputed_ops_total"), 2);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_recompute_seconds_total"), 1);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_spilled_bytes_total"), 4096);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_offloaded_bytes_total"), 1024);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_offload_seconds_total"), 3);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_replays_ahead_total"), 2);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_replay_ahead_seconds_total"), 1);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_evicted_bytes_total"), 512);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_decoded_values_total"), 3);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_codec_seconds_total"), 2);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_ooms_total"), 1);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_replans_total"), 1);
  EXPECT_DOUBLE_EQ(valueOf("ebbtide_followed_steps_total"), 1);
  EXPECT_NE(text.find("op=\"aten::mm\",rank=\"0\"} 1\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace ebbtide::plugin
