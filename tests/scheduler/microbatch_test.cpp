#include "ebbtide/scheduler/microbatch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>

#include "ebbtide/scheduler/microbatch_curve.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

// A step that runs one program for several microbatches, as one rank of a pipeline does: in an
// order of forward (m) and backward passes (~m).
class RepeatedStep {
 public:
  RepeatedStep(const Graph& program, int microbatches, const std::vector<int>& order)
      : program_(program), ops(microbatches), values_(microbatches), local_ops_(microbatches) {
    shareParameters();
    for (const int action : order) run(action < 0 ? ~action : action, action < 0);
    for (int m = 0; m < microbatches; ++m) finish(m);
    checkGraph(graph);
  }

 private:
  const Graph& program_;

 public:
  Graph graph;
  std::vector<MicrobatchOps> ops;

 private:
  bool isShared(ValueId v) const {
    return program_.values[v].producer == kNone && program_.values[v].pinned;
  }

  void shareParameters() {
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const Value& value = program_.values[v];
      const bool shared = isShared(static_cast<ValueId>(v));
      for (auto& of : values_) {
        of.push_back(shared ? static_cast<ValueId>(graph.values.size()) : kNone);
      }
      if (!shared) continue;
      graph.values.push_back(value);
      graph.values.back().overwritten_by = graph.values.back().natural_last = kNone;
    }
  }

  void run(int m, bool backward) {
    if (!backward) bear(m);
    std::vector<OpId>& of = backward ? ops[m].backward : ops[m].forward;
    local_ops_[m].resize(program_.ops.size(), kNone);
    for (std::size_t id = 0; id < program_.ops.size(); ++id) {
      Op op = program_.ops[id];
      if (op.backward != backward) continue;
      for (ValueId& v : op.inputs) v = values_[m][v];
      for (ValueId& v : op.outputs) v = addValue(m, v);
      push(of, m, id, std::move(op));
    }
  }

  // The batch, as an op of its own.
  void bear(int m) {
    Op inputs;
    inputs.name = "inputs";
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (program_.values[id].producer == kNone && !isShared(id))
        inputs.outputs.push_back(addValue(m, id));
    }
    ops[m].forward.push_back(static_cast<OpId>(graph.ops.size()));
    graph.ops.push_back(std::move(inputs));
  }

  ValueId addValue(int m, ValueId v) {
    values_[m][v] = static_cast<ValueId>(graph.values.size());
    graph.values.push_back(program_.values[v]);
    return values_[m][v];
  }

  void push(std::vector<OpId>& of, int m, std::size_t id, Op op) {
    const auto here = static_cast<OpId>(graph.ops.size());
    of.push_back(here);
    local_ops_[m][id] = here;
    graph.ops.push_back(std::move(op));
  }

  void finish(int m) {
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const Value& from = program_.values[v];
      if (isShared(static_cast<ValueId>(v))) continue;
      Value& value = graph.values[values_[m][v]];
      value.producer =
          from.producer == kNone ? ops[m].forward.front() : local_ops_[m][from.producer];
      for (OpId Value::*at : {&Value::natural_last, &Value::overwritten_by}) {
        if (from.*at != kNone) value.*at = local_ops_[m][from.*at];
      }
      // Microbatches that write a parameter, one after the other: not here.
      const bool shared = from.previous_epoch != kNone && isShared(from.previous_epoch);
      if (from.previous_epoch != kNone)
        value.previous_epoch = shared ? kNone : values_[m][from.previous_epoch];
    }
  }

  std::vector<std::vector<ValueId>> values_;  // of each microbatch, by the program's ids
  std::vector<std::vector<OpId>> local_ops_;
};

// 1F1B on a rank that holds `in_flight` microbatches.
std::vector<int> oneForwardOneBackward(int microbatches, int in_flight) {
  std::vector<int> order;
  for (int m = 0; m < microbatches + in_flight; ++m) {
    if (m >= in_flight) order.push_back(~(m - in_flight));
    if (m < microbatches) order.push_back(m);
  }
  return order;
}

// Two ops, whose outputs of 10 and 4 bytes backward reads; b1 allocates 3 bytes more.
Graph twoOps() {
  Graph graph;
  const ValueId parameter = addSource(graph, 5, true);
  const ValueId a = addForward(graph, {parameter}, 10, 7);
  const ValueId b = addForward(graph, {a}, 4, 2);
  addEvent(graph, {b});
  addEvent(graph, {a}, 3);
  return graph;
}

TEST(Microbatch, holdsWhatBackwardReads) {
  const Graph program = twoOps();
  const RepeatedStep step(program, 2, {0, 1, ~0, ~1});
  const Microbatch first(step.graph, step.ops[0]), second(step.graph, step.ops[1]);
  EXPECT_TRUE(first.isLike(second));
  // inputs, f0, f1, held, b2, b3
  EXPECT_EQ(second.held(), 3);
  EXPECT_EQ(second.stepOp(3), kNone);
  EXPECT_EQ(second.stepOp(4), step.ops[1].backward.front());
  // Held: a and b, 14 bytes; while b3 runs a and its 3 bytes, so the most in backward is the 14 of
  // b2.
  EXPECT_EQ(second.pointOf(keepEverything(second.graph())), (StagePoint{14, 14, 14, 0}));
  EXPECT_EQ(second.fixedBytes(), 0);
}

TEST(Microbatch, replaysForItsOwnBackward) {
  const Graph program = twoOps();
  const RepeatedStep step(program, 2, {0, 1, ~0, ~1});
  const Microbatch first(step.graph, step.ops[0]), second(step.graph, step.ops[1]);
  // Local values: parameter 0, a 1, b 2. a is dropped after f1 and made again before b3: 7 ns. Held
  // is b, 4 bytes; forward takes both, 14; backward b, then a and 3 bytes.
  const Schedule drops_a{
      {run(0), run(1), run(2), drop(1), run(3), run(4), drop(2), run(1), run(5), drop(1)}};
  ASSERT_EQ(validate(first.graph(), drops_a), std::nullopt);
  EXPECT_EQ(first.pointOf(drops_a), (StagePoint{4, 14, 13, 7}));
  const Schedule keeps = keepEverything(first.graph());
  const Schedule whole = composeStep(step.graph, {&first, &second}, {&drops_a, &keeps});
  ASSERT_EQ(validate(step.graph, whole), std::nullopt);
  const Simulation simulated = simulate(step.graph, whole);
  EXPECT_EQ(simulated.recompute_ns, 7);
  // The first one's 4 bytes beside the second one's 14 while b0 reads; before that, 4 + 14.
  EXPECT_EQ(simulated.peak_bytes, 14 + 13);
}

TEST(Microbatch, refusesOpsThatAreNoMicrobatch) {
  const Graph program = twoOps();
  const RepeatedStep step(program, 1, {0, ~0});
  const auto& ops = step.ops[0];
  EXPECT_THROW(Microbatch(step.graph, {{}, ops.backward}), std::invalid_argument);
  EXPECT_THROW(Microbatch(step.graph, {ops.forward, {}}), std::invalid_argument);
  EXPECT_THROW(Microbatch(step.graph, {ops.backward, ops.forward}), std::invalid_argument);
  EXPECT_THROW(Microbatch(step.graph, {ops.forward, {99}}), std::invalid_argument);
  EXPECT_THROW(Microbatch(step.graph, {ops.forward, ops.backward, ops.forward}),
               std::invalid_argument);
}

// A stage hands its output v to the next one on the same rank, which replays w from it: v is made
// again for that, since its own stage needs it no more.
TEST(Microbatch, replaysWhatAnotherOneMade) {
  Graph graph;
  const ValueId u = addForward(graph, {}, 10, 3);
  const ValueId v = addForward(graph, {u}, 10, 5);
  const ValueId w = addForward(graph, {v}, 10, 7);
  addEvent(graph, {w});
  addEvent(graph, {u});
  const Microbatch first(graph, {{0, 1}, {4}}), second(graph, {{2}, {3}});
  const Schedule keeps = keepEverything(first.graph());
  // Of the second one: v 0, w 1; ops g 0, held 1, event 2.
  const Schedule drops{{run(0), drop(1), run(1), run(0), run(2), drop(1)}};
  ASSERT_EQ(validate(second.graph(), drops), std::nullopt);
  const Schedule whole = composeStep(graph, {&first, &second}, {&keeps, &drops});
  ASSERT_EQ(validate(graph, whole), std::nullopt);
  EXPECT_EQ(simulate(graph, whole).recompute_ns, 5 + 7);
}

// What the rank holds at most if each microbatch runs at its point, as PipelineJob counts it.
Bytes modelPeak(const std::vector<Microbatch>& microbatches, const std::vector<StagePoint>& points,
                const std::vector<int>& order) {
  Bytes fixed = 0, held = 0, peak = 0;
  for (const Microbatch& m : microbatches) fixed = std::max(fixed, m.fixedBytes());
  for (const int action : order) {
    const StagePoint& point = points[action < 0 ? ~action : action];
    if (action < 0) held -= point.held_bytes;
    peak = std::max(peak, fixed + held + (action < 0 ? point.backward_bytes : point.forward_bytes));
    if (action >= 0) held += point.held_bytes;
  }
  return peak;
}

// Any points in any mixture: the step's schedule is legal, replays what its parts do, and takes no
// more than the points say.
TEST(Microbatch, composesStepsOfAnyMixture) {
  int mixtures = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Graph program = RandomGraph(seed, 4 + random() % 12).take();
    const int count = 2 + static_cast<int>(random() % 4);
    const int in_flight = 1 + static_cast<int>(random() % static_cast<std::uint64_t>(count));
    const std::vector<int> order = oneForwardOneBackward(count, in_flight);
    const RepeatedStep step(program, count, order);
    std::vector<Microbatch> microbatches;
    for (const MicrobatchOps& ops : step.ops) microbatches.emplace_back(step.graph, ops);
    Microbatch all = microbatches.front();
    for (const Microbatch& m : microbatches) {
      ASSERT_TRUE(all.isLike(m));
      all.join(m);
    }
    const Bytes plain = simulate(step.graph, keepEverything(step.graph)).peak_bytes;
    CurveOptions options;
    options.most_bytes = plain * static_cast<Bytes>(30 + random() % 60) / 100 - all.fixedBytes();
    options.in_flight = in_flight;
    options.points = 5;
    options.planner = "greedy";
    const std::vector<CurvePoint> curve = microbatchCurve(all, options);
    ASSERT_FALSE(curve.empty());
    EXPECT_EQ(curve.front().point.recompute_ns, 0);
    for (std::size_t i = 1; i < curve.size(); ++i) {
      EXPECT_GT(curve[i].point.recompute_ns, curve[i - 1].point.recompute_ns);
      EXPECT_LT(curve[i].point.held_bytes, curve[i - 1].point.held_bytes);
    }
    std::vector<const Microbatch*> parts;
    std::vector<const Schedule*> schedules;
    std::vector<StagePoint> points;
    Nanoseconds recompute_ns = 0;
    for (const Microbatch& m : microbatches) {
      const CurvePoint& chosen = curve[random() % curve.size()];
      parts.push_back(&m);
      schedules.push_back(&chosen.schedule);
      points.push_back(chosen.point);
      recompute_ns += chosen.point.recompute_ns;
    }
    const Schedule whole = composeStep(step.graph, parts, schedules);
    ASSERT_EQ(validate(step.graph, whole), std::nullopt);
    const Simulation simulated = simulate(step.graph, whole);
    EXPECT_EQ(simulated.recompute_ns, recompute_ns);
    EXPECT_LE(simulated.peak_bytes, modelPeak(microbatches, points, order));
    mixtures += recompute_ns > 0;
  }
  EXPECT_GT(mixtures, 25);  // else nothing was tried
}

// Gradients of weights apart: what is held from the one to the other is told.
TEST(Microbatch, tellsWhatIsHeldForTheWeights) {
  const Graph program = twoOps();
  const RepeatedStep step(program, 1, {0, ~0});
  MicrobatchOps ops = step.ops[0];
  ops.weight_backward = {ops.backward.back()};
  ops.backward.pop_back();
  const Microbatch microbatch(step.graph, ops);
  // inputs, f0, f1, held, b2, parted, b3; b is dropped after b2, a's 10 bytes stay.
  EXPECT_EQ(microbatch.parted(), 5);
  EXPECT_EQ(microbatch.weightHeldBytes(keepEverything(microbatch.graph())), 10);
}

}  // namespace
}  // namespace ebbtide::scheduler
