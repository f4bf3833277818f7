// Blocks of a step and what they may save.
#include "planners/chain/block_curve.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ebbtide/scheduler/simulator.hpp"
#include "gpt_graph.hpp"
#include "planners/chain/block_partition.hpp"
#include "random_graphs.hpp"
#include "search/retention.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::size_t kAll = 1'000'000;
bool never() {
  return false;
}

std::vector<Block> blocksOf(const Graph& graph, std::size_t most_stages = 100) {
  std::vector<Block> blocks;
  for (const ChainContraction& chain : contractToChains(graph, most_stages)) {
    for (const ChainStage& stage : chain.stages) blocks.push_back(blockOf(graph, stage));
  }
  return blocks;
}

std::size_t distinct(const Graph& graph) {
  std::set<std::vector<std::int64_t>> prints;
  for (const Block& block : blocksOf(graph)) prints.insert(fingerprint(block));
  return prints.size();
}

// The stages of a layer, and what is different at both ends, however many layers.
TEST(BlockPartition, FindsTheLayersOfATransformerAlike) {
  EXPECT_EQ(distinct(gptGraph({.layers = 6})), distinct(gptGraph({.layers = 20})));
  EXPECT_LT(distinct(gptGraph({.layers = 20})), 12u);
}

// One op and one event a block, 10 bytes each; of equal ones one is slower by far.
TEST(BlockPartition, TellsSlowerBlocksApart) {
  Graph graph = chain(9);
  const std::size_t alike = distinct(graph);
  graph.ops[4].duration_ns = 100;
  EXPECT_GT(distinct(graph), alike);
}

TEST(BlockPartition, MakesSoundGraphs) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph = randomGraph(seed, 3 + seed % 40);
    for (const Block& block : blocksOf(graph)) {
      EXPECT_NO_THROW(checkGraph(block.graph)) << seed;
      EXPECT_EQ(block.ops.size(), block.graph.ops.size());
      EXPECT_EQ(block.values.size(), block.graph.values.size());
      EXPECT_FALSE(
          ScheduleBuilder(block.graph).build(ScheduleBuilder(block.graph).keepAll()).steps.empty());
    }
  }
}

TEST(BlockCurve, BeginsWithSavingAllAndFallsFromThere) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Graph graph = randomGraph(seed, 3 + seed % 40);
    for (const Block& block : blocksOf(graph)) {
      const auto curve = blockCurve(block, 12, never);
      ASSERT_FALSE(curve.empty());
      EXPECT_EQ(curve[0].replay_ns, 0) << seed;
      EXPECT_LE(curve.size(), 14u);
      for (std::size_t i = 2; i < curve.size(); ++i) {
        EXPECT_LE(curve[i].saved_bytes, curve[i - 1].saved_bytes) << seed;
      }
    }
  }
}

// x -> a (8 bytes, 1 ns) -> b (4 bytes, 9 ns) -> c (2 bytes, 1 ns), all read by events, c of a
// and b. Worth saving are: a, b, c (14 bytes: nothing replayed), b, c (6: a again, 1 ns), b (4: a
// and c, 2 ns), c (2: a and b, 10 ns), nothing (0: 11 ns). Saving a and b, 12 bytes for 1 ns, is
// worse than b and c.
TEST(BlockCurve, ListsWhatIsWorthSaving) {
  Graph graph;
  const ValueId x = addGraphInput(graph, 1, true);
  const ValueId a = addForward(graph, {x}, 8, 1);
  const ValueId b = addForward(graph, {a}, 4, 9);
  const ValueId c = addForward(graph, {a, b}, 2, 1);
  addForward(graph, {b, c}, 1, 1);
  addEvent(graph, {c});
  addEvent(graph, {b});
  addEvent(graph, {a});
  const std::vector<Block> blocks = blocksOf(graph, 1);
  ASSERT_EQ(blocks.size(), 1u);
  std::set<std::pair<Bytes, Nanoseconds>> found;
  for (const BlockSave& save : blockCurve(blocks[0], kAll, never)) {
    found.emplace(save.saved_bytes, save.replay_ns);
  }
  for (const auto& pair :
       std::set<std::pair<Bytes, Nanoseconds>>{{0, 11}, {2, 10}, {4, 2}, {6, 1}, {14, 0}}) {
    EXPECT_TRUE(found.contains(pair)) << pair.first << " bytes";
  }
}

// Whatever a byte costs, no set of values is better than the best on the curve, though with more
// than nine values only cuts look for it.
TEST(BlockCurve, HoldsTheOptimumForEachPrice) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Graph graph;
    std::mt19937_64 random(seed);
    ValueId last = addGraphInput(graph, 0, true);
    std::vector<ValueId> values;
    for (std::size_t i = 0; i < 11; ++i) {
      std::vector<ValueId> inputs = {last};
      if (i > 2 && random() % 2 == 0) inputs.push_back(values[random() % (values.size() - 1)]);
      last = addForward(graph, inputs, 1 + static_cast<Bytes>(random() % 20),
                        1 + static_cast<Nanoseconds>(random() % 20));
      values.push_back(last);
    }
    for (std::size_t i = values.size(); i-- > 0;) addEvent(graph, {values[i]});
    const std::vector<Block> blocks = blocksOf(graph, 1);
    ASSERT_EQ(blocks.size(), 1u);
    const Block& block = blocks[0];
    const auto curve = blockCurve(block, kAll, never);
    ScheduleBuilder builder(block.graph);
    for (const double price : {0.1, 0.5, 1.0, 3.0}) {
      const auto cost = [&](Nanoseconds time, Bytes bytes) {
        return static_cast<double>(time) + price * static_cast<double>(bytes);
      };
      double best = 1e9;
      for (const BlockSave& save : curve) {
        best = std::min(best, cost(save.replay_ns, save.saved_bytes));
      }
      for (int tries = 0; tries < 100; ++tries) {
        Retention retention = builder.keepAll();
        Bytes bytes = 0;
        for (std::size_t id = 0; id < block.values.size(); ++id) {
          if (!builder.droppable(static_cast<ValueId>(id))) continue;
          retention.keep[id] = random() % 2 == 0;
          if (retention.keep[id]) bytes += block.graph.values[id].bytes;
        }
        const Nanoseconds time = simulate(block.graph, builder.build(retention)).recompute_ns;
        // The cut's price slopes by 5 % from the first op to the last.
        EXPECT_LE(best, cost(time, bytes) * 1.05 + 1) << seed << " price " << price;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 40 * 4 * 100);
}

TEST(BlockCurve, EndsEarlyWhenLate) {
  for (const Block& block : blocksOf(gptGraph({.layers = 2}))) {
    const auto curve = blockCurve(block, 12, [] { return true; });
    ASSERT_FALSE(curve.empty());
    EXPECT_EQ(curve[0].replay_ns, 0);
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
