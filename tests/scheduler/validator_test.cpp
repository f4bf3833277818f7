#include "ebbtide/scheduler/validator.hpp"

#include <gtest/gtest.h>

#include "ebbtide/scheduler/simulator.hpp"
#include "random_graphs.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

std::string fault(const Graph& graph, std::vector<Step> steps) {
  return validate(graph, Schedule{std::move(steps)}).value_or("");
}

// chain(2): op 0 makes value 1, op 1 value 2; event 2 reads value 2, event 3 value 1.
TEST(Validator, AcceptsReplays) {
  const Graph graph = chain(2);
  EXPECT_EQ(fault(graph, {run(0), run(1), run(2), run(3)}), "");
  EXPECT_EQ(fault(graph, {run(0), drop(1), run(1), drop(2), run(0), run(1), run(2), run(3)}), "");
}

TEST(Validator, NamesTheFirstStepThatIsNotLegal) {
  const Graph graph = chain(2);
  EXPECT_EQ(fault(graph, {run(0), run(1), run(2)}), "op 3 is never run");
  EXPECT_EQ(fault(graph, {run(1)}), "step 0: op 1 runs before op 0");
  EXPECT_EQ(fault(graph, {run(7)}), "step 0: op 7 does not exist");
  EXPECT_EQ(fault(graph, {run(-1)}), "step 0: op -1 does not exist");
  EXPECT_EQ(fault(graph, {run(0), drop(9)}), "step 1: value 9 does not exist");
  EXPECT_EQ(fault(graph, {run(0), drop(2)}), "step 1: value 2 is dropped but is not live");
  EXPECT_EQ(fault(graph, {run(0), drop(1), drop(1)}), "step 2: value 1 is dropped but is not live");
  EXPECT_EQ(fault(graph, {run(0), drop(0)}),
            "step 1: value 0 is pinned and cannot be moved or dropped");
  EXPECT_EQ(fault(graph, {run(0), run(1), drop(2), run(2)}),
            "step 3: op 2 reads value 2, which is not live");
  EXPECT_EQ(fault(graph, {run(0), run(1), run(2), run(2)}),
            "step 3: op 2 is replayed but is not rerunnable");
}

// chain(1) twice: ops 0, 2 forward, 1, 3 events that read values 1 and 2.
TEST(Validator, HasReplaysInARecordedStepForBackwardEventsAlone) {
  Graph graph = chain(1);
  addEvent(graph, {addForward(graph, {0}, 10, 1)});
  EXPECT_EQ(fault(graph, {run(0), run(0), run(1), run(2), run(0), run(2), run(3)}), "");
  const std::vector<Step> before_forward = {run(0), run(1), run(0), run(2), run(3)};
  EXPECT_EQ(
      fault(graph, before_forward),
      "step 3: op 2 comes after a replay of op 0 but is no backward event that reads something, "
      "nor does it wait");
  EXPECT_EQ(fault(graph, {run(0), run(1), run(2), run(3), run(0)}),
            "op 0 is replayed after the last backward event or wait");
  for (bool Graph::*model : {&Graph::any_order, &Graph::lazy_outputs}) {
    Graph papers = graph;
    papers.*model = true;
    EXPECT_EQ(fault(papers, before_forward), "");
  }
  // In place of event 1 a gap: a backward op that reads nothing has nothing replayed for it.
  graph.ops[1].inputs.clear();
  const std::string gap =
      "step 2: op 1 comes after a replay of op 0 but is no backward event that reads something, "
      "nor does it wait";
  EXPECT_EQ(fault(graph, {run(0), run(0), run(1), run(2), run(3)}), gap);
  // Nor where an event comes next: the executor would replay for that one, after the gap.
  graph.ops[2] = {.backward = true, .inputs = {1}};
  graph.values.pop_back();
  graph.ops[3].inputs = {1};
  EXPECT_EQ(fault(graph, {run(0), run(0), run(1), run(2), run(3)}), gap);
  EXPECT_EQ(fault(graph, {run(0), run(1), run(0), run(2), run(3)}), "");
}

// Ops 0 and 1 forward, 2 the event of 1, 3 waits, 4 the event of 0.
TEST(Validator, HasReplaysBeforeOpsThatWait) {
  Graph graph = chain(2);
  graph.ops.pop_back();
  addWait(graph);
  addEvent(graph, {1});
  EXPECT_EQ(fault(graph, {run(0), run(1), drop(1), run(2), run(0), run(3), run(4)}), "");
  EXPECT_EQ(fault(graph, {run(0), run(1), drop(1), run(2), run(3), run(0), run(4)}), "");
  EXPECT_EQ(fault(graph, {run(0), run(1), drop(1), run(2), run(0), drop(1), run(3), run(4)}),
            "step 7: op 4 reads value 1, which is not live");
  EXPECT_EQ(fault(graph, {run(0), run(1), run(2), run(3), run(3), run(4)}),
            "step 4: op 3 is replayed but is not rerunnable");
}

TEST(Validator, TheProgramServesForwardReadsButNotReplays) {
  const Graph graph = chain(2);
  // Op 1 finds value 1 because the program holds it (last_reference is op 1); its replay does not.
  EXPECT_EQ(fault(graph, {run(0), drop(1), run(1), run(1)}),
            "step 3: op 1 reads value 1, which is not live");
  Graph unheld = chain(2);
  unheld.values[1].last_reference = kNone;
  EXPECT_EQ(fault(unheld, {run(0), drop(1), run(1)}),
            "step 2: op 1 reads value 1, which is not live");
}

TEST(Validator, EventsReadThroughTheScheduleOnly) {
  Graph graph = chain(1);  // op 0 makes value 1, event 1 reads it
  graph.values[1].last_reference = 1;
  EXPECT_EQ(fault(graph, {run(0), drop(1), run(1)}),
            "step 2: op 1 reads value 1, which is not live");
}

TEST(Validator, KnowsHostCopies) {
  const Graph graph = chain(1);
  EXPECT_EQ(fault(graph, {run(0), offload(1), fetch(1), run(1)}), "");
  EXPECT_EQ(fault(graph, {run(0), offload(1), run(1)}),
            "step 2: op 1 reads value 1, which is not live");
  EXPECT_EQ(fault(graph, {run(0), fetch(1)}), "step 1: value 1 is fetched but is not on the host");
  EXPECT_EQ(fault(graph, {run(0), offload(1), offload(1)}),
            "step 2: value 1 is offloaded but is not live");
  EXPECT_EQ(fault(graph, {run(0), offload(1), drop(1)}),
            "step 2: value 1 is dropped but is not live");
}

TEST(Validator, NoFirstCopySurvivesAnOverwrite) {
  const Graph graph = inPlaceGraph();
  EXPECT_EQ(fault(graph, {run(0), run(1), run(2)}), "");
  EXPECT_EQ(fault(graph, {run(0), run(1), drop(2), run(1)}),
            "step 3: op 1 reads value 1, which the program overwrote");
  EXPECT_EQ(fault(graph, {run(0), run(1), drop(1)}), "step 2: value 1 is dropped but is not live");
  EXPECT_EQ(fault(graph, {run(0), run(1), drop(2), run(0), run(1), drop(1), run(2)}), "");
}

TEST(Validator, PinnedValuesEndWithTheirOverwriting) {
  Graph graph;
  const ValueId weight = addGraphInput(graph, 10, true);
  addForward(graph, {weight}, 10, 1);
  graph.ops.push_back({.name = "optimizer", .inputs = {weight}});
  graph.values[weight].overwritten_by = 1;
  EXPECT_EQ(fault(graph, {run(0), run(0), run(1)}), "");
  EXPECT_EQ(fault(graph, {run(0), run(1), run(0)}),
            "step 2: op 0 reads value 0, which the program overwrote");
}

TEST(Validator, AcceptsKeepingEverything) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Graph graph = randomGraph(seed, 3 + seed % 30);
    EXPECT_EQ(validate(graph, keepEverything(graph)).value_or(""), "") << seed;
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
