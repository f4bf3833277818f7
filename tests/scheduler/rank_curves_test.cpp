#include "ebbtide/scheduler/rank_curves.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "random_graphs.hpp"
#include "repeated_step.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

// As a program is recorded: it holds what its forward ops read.
Graph randomProgram(std::uint64_t seed, std::size_t forward_ops) {
  Graph program = RandomGraph(seed, forward_ops).take();
  for (std::size_t op = 0; op < program.ops.size(); ++op) {
    if (program.ops[op].backward) continue;
    for (const ValueId v : program.ops[op].inputs) {
      OpId& last = program.values[v].last_reference;
      last = std::max(last, static_cast<OpId>(op));
    }
  }
  return program;
}

bool readsSomething(const Graph& program) {
  return std::any_of(program.ops.begin(), program.ops.end(),
                     [](const Op& op) { return op.backward && !op.inputs.empty(); });
}

// Of each of the step's ops what PipelineJob lets the rank hold there; kNone: it is no
// microbatch's.
std::vector<Bytes> modelBytes(const RepeatedStep& step, const RankCurves& curves,
                              const std::vector<std::int32_t>& points) {
  std::vector<Bytes> most(step.graph.ops.size(), kNone);
  const std::vector<MicrobatchOps> ops = microbatchOps(step.recorded(), step.actions);
  Bytes held = curves.fixedBytes();
  for (const RankAction& action : step.actions.actions) {
    const StagePoint& point = curves.curve(0)[points[action.chunk]].point;
    const bool forward = action.kind == PipelineAction::Kind::kForward;
    if (!forward) held -= point.held_bytes;
    for (const OpId op : forward ? ops[action.chunk].forward : ops[action.chunk].backward)
      most[op] = held + (forward ? point.forward_bytes : point.backward_bytes);
    if (forward) held += point.held_bytes;
  }
  return most;
}

// Whatever else the step does, microbatches of one program are alike. With any points the step is
// legal, replays what the points say and takes no more than they do.
TEST(RankCurves, OfMicrobatchesAmongOtherThings) {
  int replayed = 0, gaps = 0, outside = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Graph program = randomProgram(seed, 4 + random() % 12);
    const int count = 2 + static_cast<int>(random() % 4);
    const int in_flight = 1 + static_cast<int>(random() % static_cast<std::uint64_t>(count));
    const RepeatedStep step(program, count, oneForwardOneBackward(count, in_flight), seed);
    if (!readsSomething(program)) continue;
    RankCurves curves(step.recorded(), step.actions);
    const Bytes plain = simulate(step.graph, keepEverything(step.graph)).peak_bytes;
    curves.trace(plain * static_cast<Bytes>(30 + random() % 60) / 100,
                 {.points = 5, .planner = "greedy"});
    std::vector<std::int32_t> points;
    Nanoseconds recompute_ns = 0;
    for (int m = 0; m < count; ++m) {
      points.push_back(static_cast<std::int32_t>(random() % curves.curve(0).size()));
      recompute_ns += curves.curve(0)[points.back()].point.recompute_ns;
    }
    const Schedule whole = curves.compose(step.graph, curves, points);
    ASSERT_EQ(validate(step.graph, whole), std::nullopt);
    const Simulation simulated = simulate(step.graph, whole);
    EXPECT_EQ(simulated.recompute_ns, recompute_ns);
    const std::vector<Bytes> most = modelBytes(step, curves, points);
    for (std::size_t op = 0; op < most.size(); ++op) {
      if (most[op] == kNone) continue;
      EXPECT_LE(simulated.live_bytes[op], most[op]) << "op " << op;
    }
    replayed += recompute_ns > 0;
    gaps += step.gaps_in_front;
    outside += step.outside;
    if (HasFailure()) return;
  }
  EXPECT_GT(replayed, 50);
  EXPECT_GT(gaps, 50);
  EXPECT_GT(outside, 50);
}

// The same program again in another step, where other things are not the same.
TEST(RankCurves, FitAnotherStepOfTheProgram) {
  int fitting = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    const Graph program = randomProgram(seed, 4 + seed % 12);
    if (!readsSomething(program)) continue;
    const std::vector<int> order = oneForwardOneBackward(3, 2);
    const RepeatedStep step(program, 3, order, seed), other(program, 3, order, seed + 1000);
    RankCurves curves(step.recorded(), step.actions);
    const RankCurves there(other.recorded(), other.actions);
    ASSERT_TRUE(curves.fit(there));
    const Bytes plain = simulate(step.graph, keepEverything(step.graph)).peak_bytes;
    curves.trace(plain * 6 / 10, {.points = 4, .planner = "greedy"});
    const auto last = static_cast<std::int32_t>(curves.curve(0).size()) - 1;
    const Schedule whole = curves.compose(other.graph, there, {last, 0, last});
    EXPECT_EQ(validate(other.graph, whole), std::nullopt);
    EXPECT_EQ(simulate(other.graph, whole).recompute_ns,
              2 * curves.curve(0)[last].point.recompute_ns);
    fitting += last > 0;
  }
  EXPECT_GT(fitting, 20);
}

TEST(RankCurves, RefuseMicrobatchesThatAreNotAlike) {
  const Graph program = chain(3);
  RepeatedStep step(program, 2, {0, 1, ~0, ~1});
  step.graph.ops[step.ops[1].forward[2]].name = "another";
  EXPECT_THROW(RankCurves(step.recorded(), step.actions), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::scheduler
