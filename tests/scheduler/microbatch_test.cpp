#include "ebbtide/scheduler/microbatch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>

#include "ebbtide/scheduler/microbatch_curve.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "random_graphs.hpp"
#include "repeated_step.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

// Two ops, whose outputs of 10 and 4 bytes backward reads; b1 allocates 3 bytes more.
Graph twoOps() {
  Graph graph;
  const ValueId parameter = addGraphInput(graph, 5, true);
  const ValueId a = addForward(graph, {parameter}, 10, 7);
  const ValueId b = addForward(graph, {a}, 4, 2);
  addEvent(graph, {b});
  addEvent(graph, {a}, 3);
  return graph;
}

TEST(Microbatch, holdsWhatBackwardReads) {
  const Graph program = twoOps();
  const RepeatedStep step(program, 2, {0, 1, ~0, ~1});
  const MicrobatchedStep cut(step.graph, step.ops);
  const Microbatch first(cut, 0), second(cut, 1);
  EXPECT_TRUE(first.isLike(second));
  // inputs, f0, f1, held, b2, b3
  EXPECT_EQ(second.held(), 3);
  EXPECT_EQ(second.stepOp(3), kNone);
  EXPECT_EQ(second.stepOp(4), step.ops[1].backward.front());
  // Held: a and b, 14 bytes; while b3 runs a and its 3 bytes, so the most in backward is the 14 of
  // b2.
  EXPECT_EQ(second.pointOf(keepEverything(second.graph())), (StagePoint{14, 14, 14, 0}));
  EXPECT_EQ(cut.baseBytes(), 0);
}

TEST(Microbatch, replaysForItsOwnBackward) {
  const Graph program = twoOps();
  const RepeatedStep step(program, 2, {0, 1, ~0, ~1});
  const MicrobatchedStep cut(step.graph, step.ops);
  const Microbatch first(cut, 0), second(cut, 1);
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
  const auto cut = [&step](MicrobatchOps of) { MicrobatchedStep(step.graph, {std::move(of)}); };
  EXPECT_NO_THROW(cut(ops));
  EXPECT_THROW(cut({{}, ops.backward}), std::invalid_argument);
  EXPECT_THROW(cut({ops.forward, {}}), std::invalid_argument);
  EXPECT_THROW(cut({ops.backward, ops.forward}), std::invalid_argument);
  EXPECT_THROW(cut({ops.forward, {99}}), std::invalid_argument);
  EXPECT_THROW(cut({ops.forward, ops.backward, ops.forward}), std::invalid_argument);
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
  const MicrobatchedStep cut(graph, {{{0, 1}, {4}}, {{2}, {3}}});
  const Microbatch first(cut, 0), second(cut, 1);
  const Schedule keeps = keepEverything(first.graph());
  // Of the second one: v 0, w 1; ops g 0, held 1, event 2.
  const Schedule drops{{run(0), drop(1), run(1), run(0), run(2), drop(1)}};
  ASSERT_EQ(validate(second.graph(), drops), std::nullopt);
  const Schedule whole = composeStep(graph, {&first, &second}, {&keeps, &drops});
  ASSERT_EQ(validate(graph, whole), std::nullopt);
  EXPECT_EQ(simulate(graph, whole).recompute_ns, 5 + 7);
}

// What the rank holds at most if each microbatch runs at its point, as PipelineJob counts it.
Bytes modelPeak(Bytes fixed, const std::vector<StagePoint>& points, const std::vector<int>& order) {
  Bytes held = 0, peak = 0;
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
    const MicrobatchedStep cut(step.graph, step.ops);
    for (std::size_t m = 0; m < step.ops.size(); ++m) microbatches.emplace_back(cut, m);
    Microbatch all = microbatches.front();
    for (const Microbatch& m : microbatches) {
      ASSERT_TRUE(all.isLike(m));
      all.join(m);
    }
    const Bytes plain = simulate(step.graph, keepEverything(step.graph)).peak_bytes;
    CurveOptions options;
    options.most_bytes = plain * static_cast<Bytes>(30 + random() % 60) / 100 - cut.baseBytes();
    options.in_flight = in_flight;
    options.points = 5;
    options.planner = "greedy";
    const std::vector<MicrobatchPoint> curve = microbatchCurve(all, options);
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
      const MicrobatchPoint& chosen = curve[random() % curve.size()];
      parts.push_back(&m);
      schedules.push_back(&chosen.schedule);
      points.push_back(chosen.point);
      recompute_ns += chosen.point.recompute_ns;
    }
    const Schedule whole = composeStep(step.graph, parts, schedules);
    ASSERT_EQ(validate(step.graph, whole), std::nullopt);
    const Simulation simulated = simulate(step.graph, whole);
    EXPECT_EQ(simulated.recompute_ns, recompute_ns);
    EXPECT_LE(simulated.peak_bytes, modelPeak(cut.baseBytes(), points, order));
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
  const Microbatch microbatch(MicrobatchedStep(step.graph, {ops}), 0);
  // inputs, f0, f1, held, b2, parted, b3; b is dropped after b2, a's 10 bytes stay.
  EXPECT_EQ(microbatch.parted(), 5);
  EXPECT_EQ(microbatch.weightHeldBytes(keepEverything(microbatch.graph())), 10);
}

// As the ops of a program are named: by what they do.
void nameAlike(Graph& graph) {
  for (Op& op : graph.ops) op.name = op.backward ? "backward" : "op";
}

// Nodes that read nothing, with 6 bytes in front and 5 behind, stand out in the second microbatch's
// backward pass alone.
TEST(Microbatch, isLikeAnotherOneWithGaps) {
  Graph graph;
  std::vector<MicrobatchOps> ops(2);
  std::vector<ValueId> kept;
  for (MicrobatchOps& of : ops) {
    of.forward = {static_cast<OpId>(graph.ops.size())};
    kept.push_back(addForward(graph, {}, 10, 1));
  }
  ops[0].backward = {addEvent(graph, {kept[0]})};
  ops[1].backward = {addEvent(graph, {}, 6), addEvent(graph, {kept[1]}), addEvent(graph, {}, 5)};
  graph.values[kept[1]].last_reference = ops[1].backward.front();
  nameAlike(graph);
  const MicrobatchedStep cut(graph, ops);
  const Microbatch first(cut, 0), second(cut, 1);
  ASSERT_TRUE(first.isLike(second));
  EXPECT_EQ(second.stepOp(2), ops[1].backward[1]);  // after the forward op and `held`
  // The program holds the value while the gap in front runs, which counts to the event: 10 + 6.
  EXPECT_EQ(second.graph().values[0].last_reference, 2);
  EXPECT_EQ(second.pointOf(keepEverything(second.graph())), (StagePoint{10, 10, 16, 0}));
}

// What the first backward pass allocates for good is there when the second one begins: 7 bytes of
// gradients count once.
TEST(Microbatch, countsGradientsOnce) {
  Graph graph;
  std::vector<MicrobatchOps> ops(2);
  for (MicrobatchOps& of : ops) {
    of.forward = {static_cast<OpId>(graph.ops.size())};
    const ValueId kept = addForward(graph, {}, 10, 1);
    of.backward = {addEvent(graph, {kept}, 7)};
  }
  graph.ops[1].fixed_at_start = 0;
  graph.ops[2].fixed_bytes = 7;
  const MicrobatchedStep cut(graph, ops);
  EXPECT_EQ(cut.baseBytes(), 7);
  const Microbatch first(cut, 0);
  EXPECT_EQ(first.pointOf(keepEverything(first.graph())), (StagePoint{10, 10, 10, 0}));
}

// Statistics of batches: each microbatch's op reads them and writes them anew in their place, 4
// bytes, and makes 10 that backward reads beside another 10 made of these.
TEST(Microbatch, writesABufferOfAll) {
  constexpr int kMicrobatches = 3;
  Graph graph;
  std::vector<MicrobatchOps> ops(kMicrobatches);
  ValueId statistics = addGraphInput(graph, 4);
  for (MicrobatchOps& of : ops) {
    const auto norm = static_cast<OpId>(graph.ops.size());
    const ValueId y = addForward(graph, {statistics}, 10, 2);
    const ValueId before = std::exchange(statistics, addGraphInput(graph, 4));
    graph.ops[norm].outputs.push_back(statistics);
    graph.values[statistics].producer = norm;
    graph.values[statistics].previous_epoch = before;
    graph.values[before].overwritten_by = graph.values[before].last_reference = norm;
    const ValueId z = addForward(graph, {y}, 10, 5);
    of.forward = {norm, norm + 1};
    graph.values[y].last_reference = norm + 1;
    of.backward = {z, y};  // as values, for now
  }
  for (MicrobatchOps& of : ops) {
    of.backward[0] = addEvent(graph, {of.backward[0]});
    of.backward[1] = addEvent(graph, {of.backward[1]});
  }
  graph.values[statistics].last_reference = static_cast<OpId>(graph.ops.size()) - 1;
  nameAlike(graph);
  const MicrobatchedStep cut(graph, ops);
  std::vector<Microbatch> microbatches;
  for (std::size_t m = 0; m < kMicrobatches; ++m) microbatches.emplace_back(cut, m);
  Microbatch all = microbatches.front();
  for (const Microbatch& m : microbatches) {
    ASSERT_TRUE(all.isLike(m));
    all.join(m);
  }
  const Microbatch& first = microbatches.front();
  for (const ValueId v : {0, 2}) EXPECT_TRUE(first.graph().values[v].pinned) << v;
  const std::vector<MicrobatchPoint> curve =
      microbatchCurve(all, {.most_bytes = 60, .in_flight = kMicrobatches, .planner = "greedy"});
  // y is not made again, since what it was made of is gone: z alone is, in 5 ns.
  ASSERT_EQ(curve.size(), 2U);
  EXPECT_EQ(curve[0].point, (StagePoint{20, 20, 20, 0}));
  EXPECT_EQ(curve[1].point, (StagePoint{10, 20, 20, 5}));
  for (const std::size_t dropping : {0U, 1U, 2U}) {
    std::vector<const Microbatch*> parts;
    std::vector<const Schedule*> schedules;
    for (std::size_t m = 0; m < kMicrobatches; ++m) {
      parts.push_back(&microbatches[m]);
      schedules.push_back(&curve[m <= dropping ? 1 : 0].schedule);
    }
    const Schedule whole = composeStep(graph, parts, schedules);
    ASSERT_EQ(validate(graph, whole), std::nullopt);
    EXPECT_EQ(simulate(graph, whole).recompute_ns, 5 * static_cast<Nanoseconds>(dropping + 1));
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
