#include "planners/chain/chain_contraction.hpp"

#include <gtest/gtest.h>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "gpt_graph.hpp"
#include "planners/chain/chain_expansion.hpp"
#include "planners/chain/chain_peak.hpp"
#include "random_graphs.hpp"
#include "small_chains.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

// The stages are the chain's own, and what they cost is what the chain says.
TEST(ChainContraction, FindsAChainAgain) {
  const Chain chain = toyChain();
  const auto chains = contractToChains(chainGraph(chain, CostModel::kPaper), 100);
  ASSERT_EQ(chains.size(), 1u);
  const ChainCosts& costs = chains[0].costs;
  ASSERT_EQ(costs.stages(), chain.stages());
  // a⁰ = 763 is resident: it counts in every peak, and as no stage's input.
  EXPECT_EQ(costs.input, (std::vector<Bytes>{0, 954, 1068, 1106, 1068, 954, 763}));
  EXPECT_EQ(costs.saved, (std::vector<Bytes>{954, 1068, 1108, 1068, 954, 763, 0}));
  EXPECT_EQ(costs.first_run[0], 763 + 954);
  EXPECT_EQ(costs.again_run[2], 1106);
  EXPECT_EQ(costs.again_save[2], 1108);
  EXPECT_EQ(costs.held[2], 763 + 1106);                           // a⁰, δ³
  EXPECT_EQ(costs.backward[2], 763 + 1106 + 1068 + 1108 + 3099);  // with δ² and ā³
  EXPECT_EQ(costs.run_ns, chain.forward_ns);
}

// x (a graph input) -> v1 -> v2 -> v3 -> v4 where v1 is read by the third op too: two values cross
// before it.
TEST(ChainContraction, CutsWhereOneValueCrosses) {
  Graph graph;
  const ValueId x = addGraphInput(graph, 5);
  const ValueId v1 = addForward(graph, {x}, 10, 1);
  const ValueId v2 = addForward(graph, {v1}, 10, 1);
  const ValueId v3 = addForward(graph, {v1, v2}, 10, 1);
  const ValueId v4 = addForward(graph, {v3}, 10, 1);
  for (ValueId value : {v4, v3, v2, v1}) addEvent(graph, {value});
  const auto chains = contractToChains(graph, 100);
  ASSERT_EQ(chains.size(), 1u);
  std::vector<std::vector<OpId>> forward;
  for (const ChainStage& stage : chains[0].stages) forward.push_back(stage.forward);
  EXPECT_EQ(forward, (std::vector<std::vector<OpId>>{{0}, {1, 2}, {3}}));
}

TEST(ChainContraction, KeepsToTheMostStages) {
  for (std::size_t most : {1u, 2u, 7u, 40u}) {
    const auto chains = contractToChains(chain(40), most);
    ASSERT_EQ(chains.size(), 1u);
    EXPECT_EQ(chains[0].stages.size(), most);
  }
}

TEST(ChainContraction, FindsTheLayersOfATransformer) {
  const auto chains = contractToChains(gptGraph({.layers = 6}), 1000);
  ASSERT_EQ(chains.size(), 1u);
  EXPECT_GE(chains[0].stages.size(), 12u);  // attention and feed-forward of each
}

// Whatever a chain program puts in order, the schedule is legal.
TEST(ChainExpansion, IsLegalOnAnyGraph) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Graph graph = randomGraph(seed, 2 + seed % 40);
    const auto chains = contractToChains(graph, 100);
    std::vector<ChainSchedule> schedules;
    for (const auto& one : chains) schedules.push_back(smallestPeak(one.costs).schedule);
    const Schedule schedule = ChainExpansion(graph, chains).expand(schedules);
    EXPECT_EQ(validate(graph, schedule).value_or(""), "") << seed;
  }
}

TEST(ChainPeak, IsWhatTheSimulatorSays) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (CostModel model : {CostModel::kPaper, CostModel::kReal}) {
      const Graph graph = chainGraph(randomChain(seed, 1 + seed % 12, 20), model);
      const auto chains = contractToChains(graph, 100);
      const SmallestPeak smallest = smallestPeak(chains[0].costs);
      const Schedule schedule = ChainExpansion(graph, chains).expand({smallest.schedule});
      EXPECT_EQ(validate(graph, schedule).value_or(""), "") << seed;
      EXPECT_LE(simulate(graph, schedule).peak_bytes, smallest.bytes) << seed;
      if (model == CostModel::kPaper) {
        EXPECT_EQ(simulate(graph, schedule).peak_bytes, smallest.bytes) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
