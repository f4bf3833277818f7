#include "planners/chain/chain_join.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "gpt_graph.hpp"
#include "honest_plan.hpp"
#include "planners/chain/chain_expansion.hpp"
#include "planners/chain/persistent_dp.hpp"
#include "random_graphs.hpp"
#include "schedule_brute_force.hpp"
#include "small_graphs.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr Nanoseconds kNoBound = 1 << 28;
bool never() {
  return false;
}

// rotor2024's recursion with partial saves, written down as it is.
class PlainRecursion {
 public:
  explicit PlainRecursion(const ChainCosts& costs) : costs_(costs) {}

  Nanoseconds least(std::size_t s, std::size_t t, Bytes bytes) {
    const auto [found, added] = known_.try_emplace({s, t, bytes}, kNoBound);
    if (!added) return found->second;
    Nanoseconds best = kNoBound;
    const auto offer = [&](Nanoseconds time) { best = std::min(best, time); };
    if (bytes >= std::max(costs_.savePeak(s, t), costs_.backward[s])) {
      offer(rest(s, t, bytes - costs_.saved[s]));
    }
    for (std::size_t which = 0; which < costs_.partials(s); ++which) {
      if (bytes < costs_.partialPeak(s, t, which)) continue;
      offer(rest(s, t, bytes - costs_.partial[s][which].saved) + costs_.partialNs(s, t, which));
    }
    Nanoseconds dropped = 0;
    for (std::size_t c = s + 1; c <= t; ++c) {
      const Bytes beyond = c - 1 == s ? 0 : costs_.input[c - 1];
      if (bytes < beyond + costs_.runPeak(c - 1, t)) break;
      dropped += costs_.dropNs(c - 1, t);
      if (bytes >= costs_.input[c]) {
        offer(dropped + least(c, t, bytes - costs_.input[c]) + least(s, c - 1, bytes));
      }
    }
    return known_[{s, t, bytes}] = std::min(best, kNoBound);
  }

 private:
  Nanoseconds rest(std::size_t s, std::size_t t, Bytes bytes) {
    if (s == t) return 0;
    return bytes < 0 ? kNoBound : least(s + 1, t, bytes);
  }

  const ChainCosts& costs_;
  std::map<std::tuple<std::size_t, std::size_t, Bytes>, Nanoseconds> known_;
};

ChainCosts randomCosts(std::uint64_t seed, std::size_t stages) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
  };
  ChainCosts costs;
  for (std::size_t s = 0; s < stages; ++s) {
    const Bytes output = 1 + pick(5), saved = output + pick(9);
    costs.input.push_back(s == 0 ? 0 : 1 + pick(3));
    costs.saved.push_back(saved);
    for (auto* list : {&costs.first_run, &costs.again_run}) list->push_back(output + pick(3));
    for (auto* list : {&costs.first_save, &costs.again_save}) list->push_back(saved + pick(3));
    costs.held.push_back(pick(3));
    costs.backward.push_back(saved + pick(6));
    costs.run_ns.push_back(1 + pick(9));
    costs.save_ns.push_back(costs.run_ns.back() + pick(3));
    std::vector<PartialSave> partial;
    for (std::int64_t i = pick(3); i-- > 0;) {
      const Nanoseconds first = 1 + pick(9);
      const Bytes less = output + pick(saved - output);
      partial.push_back({less, pick(saved - less), less + pick(9), first, pick(first)});
    }
    costs.partial.push_back(std::move(partial));
  }
  return costs;
}

TEST(PartialSaves, AreUsedAsThePlainRecursionSays) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const ChainCosts costs = randomCosts(seed, 1 + seed % 7);
    const std::int32_t most = 90;
    const PersistentProgram program(costs, {1, most, SlotRounding::kUp}, kNoBound, never);
    PlainRecursion plain(costs);
    for (std::int32_t slots = 0; slots <= most; ++slots) {
      const Nanoseconds least = plain.least(0, costs.stages() - 1, slots);
      ASSERT_EQ(program.feasible(slots), least < kNoBound) << seed << " slots " << slots;
      if (!program.feasible(slots)) continue;
      ASSERT_EQ(program.extraNs(slots), least) << seed << " slots " << slots;
    }
  }
}

// What the program asks for comes true on the graph: the replays take no longer than it says (an
// op that two events need may be replayed once), and the schedule is legal.
TEST(PartialSaves, ComeTrueOnTheGraph) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = tinyStep(seed, 3 + static_cast<int>(seed % 9));
    auto chains = contractToChains(graph, 100);
    solveBlocks(graph, chains, never);
    ChainExpansion expansion(graph, chains);
    for (const ChainContraction& chain : chains) {
      const Bytes all = simulate(graph, keepEverything(graph)).peak_bytes;
      const SlotGrid grid{1, static_cast<std::int32_t>(all) + 20, SlotRounding::kUp};
      const PersistentProgram program(chain.costs, grid, kNoBound, never);
      for (std::int32_t slots = grid.slots; slots >= 0; slots = program.stepBelow(slots)) {
        if (!program.feasible(slots)) break;
        const Schedule schedule = expansion.expand({program.schedule(slots)});
        ASSERT_EQ(validate(graph, schedule).value_or(""), "") << seed;
        EXPECT_LE(simulate(graph, schedule).recompute_ns, program.extraNs(slots)) << seed;
      }
    }
  }
}

TEST(JoinBlocks, IsLegalAndHonest) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Graph graph = randomGraph(seed, 3 + seed % 40);
    const Bytes bound = peakLowerBound(graph);
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    for (Bytes budget : {Bytes{0}, bound, (bound + peak) / 2, peak}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " budget " << budget);
      expectHonest(graph, budget, joinBlocks(graph, budget, {}));
    }
  }
}

TEST(JoinBlocks, IsNeverBetterThanTheOptimum) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = tinyStep(seed, 2 + static_cast<int>(seed % 5));
    const Bytes peak = simulate(graph, keepEverything(graph)).peak_bytes;
    for (Bytes budget = peakLowerBound(graph); budget <= peak; budget += 2) {
      const PlanResult result = joinBlocks(graph, budget, {});
      if (!result.feasible) continue;
      const auto least = ScheduleBruteForce(graph, budget).leastReplayTime();
      ASSERT_TRUE(least.has_value());
      EXPECT_GE(result.recompute_ns, *least) << seed << " budget " << budget;
    }
  }
}

// Half of the activations of a transformer: whole stages need not be dropped, since each saves
// little at the price of its cheap ops. The bound is what no schedule can beat.
TEST(JoinBlocks, HalvesTheActivationsOfATransformerCheaply) {
  const Graph graph = gptGraph({.layers = 24});
  const Bytes fixed = graph.ops[0].fixed_bytes;
  const Bytes budget = fixed + (simulate(graph, keepEverything(graph)).peak_bytes - fixed) / 2;
  const PlanResult joined = joinBlocks(graph, budget, {});
  const PlanResult whole = planner("rotor-persistent").plan(graph, budget, {});
  EXPECT_TRUE(joined.feasible);
  EXPECT_LT(joined.recompute_ns, whole.recompute_ns / 2);
  EXPECT_LE(joined.recompute_ns, recomputeLowerBound(graph, budget) / 4 * 5);
}

}  // namespace
}  // namespace ebbtide::scheduler
