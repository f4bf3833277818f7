// The timeline's peak after random changes is what the simulator says of its schedule.
#include "search/replay_timeline.hpp"

#include <gtest/gtest.h>

#include <random>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "gpt_graph.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

void expectAgrees(const Graph& graph, const ReplayTimeline& timeline) {
  const Schedule schedule = timeline.schedule();
  ASSERT_EQ(validate(graph, schedule).value_or(""), "");
  const Simulation simulation = simulate(graph, schedule);
  EXPECT_EQ(timeline.peak(), simulation.peak_bytes);
  EXPECT_EQ(timeline.replayNs(), simulation.recompute_ns);
  EXPECT_EQ(static_cast<std::int64_t>(timeline.replays().size()), simulation.recomputed_ops);
}

// Inserts and removes at random; returns how many changes were made.
int change(ReplayTimeline& timeline, std::mt19937_64& random, OpId ops) {
  int made = 0;
  for (int i = 0; i < 12; ++i) {
    const auto& replays = timeline.replays();
    if (!replays.empty() && random() % 3 == 0) {
      made += timeline.remove(replays[random() % replays.size()]);
    } else {
      const OpId stage = static_cast<OpId>(random() % static_cast<std::uint64_t>(ops));
      const OpId op = static_cast<OpId>(random() % static_cast<std::uint64_t>(ops));
      made += timeline.insert({stage, op});
    }
  }
  return made;
}

TEST(ReplayTimeline, WithoutReplaysKeepsEverything) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = randomGraph(seed, 2 + seed % 30);
    const ReplayTimeline timeline(graph);
    expectAgrees(graph, timeline);
    EXPECT_EQ(timeline.peak(), simulate(graph, keepEverything(graph)).peak_bytes);
  }
}

TEST(ReplayTimeline, AgreesWithTheSimulatorAfterEveryFewChanges) {
  int made = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = randomGraph(seed, 2 + seed % 30);
    ReplayTimeline timeline(graph);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 10; ++round) {
      made += change(timeline, random, static_cast<OpId>(graph.ops.size()));
      expectAgrees(graph, timeline);
    }
  }
  EXPECT_GT(made, 3000);
}

// Which are written over the bytes that the program holds and no run reads.
TEST(ReplayTimeline, AgreesOnEncodedValues) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = withCopies(randomGraph(seed, 2 + seed % 20), seed);
    ReplayTimeline timeline(graph);
    expectAgrees(graph, timeline);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 5; ++round) {
      change(timeline, random, static_cast<OpId>(graph.ops.size()));
      expectAgrees(graph, timeline);
    }
  }
}

TEST(ReplayTimeline, AgreesOnLazyOutputs) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = randomGraph(seed, 2 + seed % 20);
    graph.lazy_outputs = true;
    for (Value& value : graph.values) {
      value.last_reference = value.overwritten_by = value.previous_epoch = kNone;
    }
    ReplayTimeline timeline(graph);
    std::mt19937_64 random(seed);
    for (int round = 0; round < 5; ++round) {
      change(timeline, random, static_cast<OpId>(graph.ops.size()));
      expectAgrees(graph, timeline);
    }
  }
}

TEST(ReplayTimeline, TakesBackWhatItDid) {
  const Graph graph = gptGraph({.layers = 2});
  ReplayTimeline timeline(graph);
  const Bytes before = timeline.peak();
  std::mt19937_64 random(1);
  change(timeline, random, static_cast<OpId>(graph.ops.size()));
  while (!timeline.replays().empty()) {
    // One that no other needs: the last.
    ASSERT_TRUE(
        timeline.remove(*std::max_element(timeline.replays().begin(), timeline.replays().end())));
  }
  EXPECT_EQ(timeline.peak(), before);
  EXPECT_EQ(timeline.replayNs(), 0);
}

}  // namespace
}  // namespace ebbtide::scheduler
