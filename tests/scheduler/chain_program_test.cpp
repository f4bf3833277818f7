// The dynamic programs against the simulator and against each other.
#include <gtest/gtest.h>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "planners/chain/chain_contraction.hpp"
#include "planners/chain/chain_expansion.hpp"
#include "planners/chain/chain_peak.hpp"
#include "planners/chain/floating_dp.hpp"
#include "planners/chain/persistent_dp.hpp"
#include "small_chains.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr Nanoseconds kNoBound = 1 << 28;
bool never() {
  return false;
}

// With a slot for each byte, peak and time are those that the program claims; the peak is below
// only where the next schedule would take as long.
TEST(ChainProgram, ClaimsWhatTheSimulatorSays) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = chainGraph(randomChain(seed, 1 + seed % 11, 12), CostModel::kPaper);
    const auto chains = contractToChains(graph, 100);
    const Bytes all = simulate(graph, keepEverything(graph)).peak_bytes;
    const SlotGrid grid{1, static_cast<std::int32_t>(all), SlotRounding::kUp};
    const PersistentProgram persistent(chains[0].costs, grid, kNoBound, never);
    const FloatingProgram floating(chains[0].costs, grid, kNoBound, never);
    const Bytes least = smallestPeak(chains[0].costs).bytes;
    EXPECT_EQ(persistent.extraNs(grid.slots), 0);
    ChainExpansion expansion(graph, chains);
    for (std::int32_t slots = 0; slots <= grid.slots; ++slots) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " slots " << slots);
      ASSERT_EQ(persistent.feasible(slots), slots >= least);
      ASSERT_TRUE(floating.feasible(slots) || !persistent.feasible(slots));
      for (const ChainProgram* program :
           std::initializer_list<const ChainProgram*>{&persistent, &floating}) {
        if (!program->feasible(slots)) continue;
        const Schedule schedule = expansion.expand({program->schedule(slots)});
        ASSERT_EQ(validate(graph, schedule).value_or(""), "");
        const Simulation simulation = simulate(graph, schedule);
        ASSERT_LE(simulation.peak_bytes, slots);
        ASSERT_EQ(simulation.recompute_ns, program->extraNs(slots));
        if (program->stepBelow(slots) == slots - 1) {
          ASSERT_EQ(simulation.peak_bytes, slots);
        }
      }
      if (persistent.feasible(slots)) {
        ASSERT_LE(floating.extraNs(slots), persistent.extraNs(slots));
      }
    }
  }
}

// A bound on the time leaves out what is not below it, and nothing else.
TEST(ChainProgram, HeedsTheBound) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Graph graph = chainGraph(randomChain(seed, 10, 9), CostModel::kReal);
    const auto chains = contractToChains(graph, 100);
    const SlotGrid grid{1, 200, SlotRounding::kNearest};
    const PersistentProgram free(chains[0].costs, grid, kNoBound, never);
    const PersistentProgram bound(chains[0].costs, grid, 15, never);
    const FloatingProgram floating(chains[0].costs, grid, 15, never);
    for (std::int32_t slots = 0; slots <= grid.slots; ++slots) {
      const bool below = free.feasible(slots) && free.extraNs(slots) < 15;
      ASSERT_EQ(bound.feasible(slots), below);
      if (!below) continue;
      ASSERT_EQ(bound.extraNs(slots), free.extraNs(slots));
      ASSERT_LE(floating.extraNs(slots), free.extraNs(slots));
    }
  }
}

// Rounded up, a schedule never takes more bytes than its slots.
TEST(ChainProgram, RoundingUpKeepsTheBudget) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = chainGraph(randomChain(seed, 12, 1000), CostModel::kPaper);
    const auto chains = contractToChains(graph, 100);
    const SlotGrid grid{170.5, 60, SlotRounding::kUp};
    const PersistentProgram program(chains[0].costs, grid, kNoBound, never);
    ChainExpansion expansion(graph, chains);
    for (std::int32_t slots = grid.slots; slots >= 0; slots = program.stepBelow(slots)) {
      if (!program.feasible(slots)) break;
      const Schedule schedule = expansion.expand({program.schedule(slots)});
      ASSERT_LE(static_cast<double>(simulate(graph, schedule).peak_bytes), 170.5 * slots);
    }
  }
}

TEST(ChainProgram, HasNothingAfterADeadline) {
  const Graph graph = chainGraph(toyChain(), CostModel::kPaper);
  const auto chains = contractToChains(graph, 100);
  const SlotGrid grid{1, 20000, SlotRounding::kUp};
  const auto late = [] { return true; };
  EXPECT_FALSE(PersistentProgram(chains[0].costs, grid, kNoBound, late).feasible(20000));
  EXPECT_FALSE(FloatingProgram(chains[0].costs, {100, 200}, kNoBound, late).feasible(200));
}

}  // namespace
}  // namespace ebbtide::scheduler
