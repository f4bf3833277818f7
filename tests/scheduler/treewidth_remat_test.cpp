// twremat, twremat-k and pwremat against the theorems of kumar2019.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "planners/treewidth/pwremat_planner.hpp"
#include "planners/treewidth/twremat_planner.hpp"
#include "random_graphs.hpp"
#include "random_orders.hpp"

namespace ebbtide::scheduler {
namespace {

const WorkLimit kAnyLength{std::numeric_limits<std::size_t>::max()};

Simulation simulated(const Graph& graph, const std::optional<Schedule>& schedule) {
  EXPECT_TRUE(schedule.has_value());
  if (!schedule) return {};
  EXPECT_EQ(validate(graph, *schedule).value_or(""), "");
  return simulate(graph, *schedule);
}

// Theorem 5's proof: each level of the recursion holds its separator, at most w + 1 values, and one
// set of inputs, M_in; there are at most floor(log2 b) + 1 levels over b bags; and f.
void expectWithinTheoremFive(const Graph& graph) {
  const TwRemat remat(graph);
  Bytes largest = 0;
  for (const Value& value : graph.values) largest = std::max(largest, value.bytes);
  const auto levels = static_cast<Bytes>(std::log2(static_cast<double>(remat.bags()))) + 1;
  const auto separator = static_cast<Bytes>(remat.width() + 1) * largest;
  EXPECT_LE(simulated(graph, remat.schedule(1, kAnyLength)).peak_bytes,
            levels * (separator + mostInputBytes(graph)) + largest);
}

TEST(TwRemat, StaysWithinTheoremFive) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    expectWithinTheoremFive(randomOrderGraph(seed, 2 + seed));
    expectWithinTheoremFive(
        randomGraphOfPathwidth(seed, 20 + 5 * seed, 1 + seed % 4, seed % 2 > 0));
  }
}

// The bound above grows by w + 1 + M_in where n doubles. From 10^2 to 10^4 nodes n doubles 6.6
// times; keeping everything grows a hundredfold.
TEST(TwRemat, GrowsWithTheLogarithmOfTheDepth) {
  const auto growth = [](const Graph& small, const Graph& large) {
    expectWithinTheoremFive(large);
    return simulated(large, TwRemat(large).schedule(1, kAnyLength)).peak_bytes -
           simulated(small, TwRemat(small).schedule(1, kAnyLength)).peak_bytes;
  };
  // Chains: w = 2, and at most 3 inputs.
  EXPECT_LE(growth(unitTrainingChain(50), unitTrainingChain(5000)), 6.7 * (3 + 3));
  // Trees: w = 1, 2 inputs.
  EXPECT_LE(growth(unitTree(7), unitTree(13)), 6 * (2 + 2));
  // U-Nets: 4 inputs.
  const Graph u_net = unitTrainingUNet(2500);
  const auto separator = static_cast<double>(TwRemat(u_net).width() + 1);
  EXPECT_LE(static_cast<double>(growth(unitTrainingUNet(25), u_net)), 6.7 * (separator + 4));
}

TEST(TwRemat, TradesTimeForMemoryByK) {
  for (const Graph& graph : {unitTrainingChain(300), unitTrainingUNet(100), unitTree(8)}) {
    const TwRemat remat(graph);
    Bytes peak = 0;
    Nanoseconds time = std::numeric_limits<Nanoseconds>::max();
    for (std::size_t k = 1; k < 4 * remat.bags(); k *= 2) {
      const Simulation simulation = simulated(graph, remat.schedule(k, kAnyLength));
      EXPECT_GE(simulation.peak_bytes, peak) << k;
      EXPECT_LE(simulation.recompute_ns, time) << k;
      peak = simulation.peak_bytes;
      time = simulation.recompute_ns;
    }
    // k > b: program order, nothing twice.
    EXPECT_EQ(time, 0);
    EXPECT_EQ(peak, simulate(graph, keepEverything(graph)).peak_bytes);
  }
}

TEST(TwRemat, StopsWhereTheScheduleWouldBeTooLong) {
  const Graph graph = unitTrainingChain(100);
  EXPECT_FALSE(TwRemat(graph).schedule(1, {200}).has_value());
}

TEST(TwRemat, PlannerPicksTheLargestKThatFits) {
  const Graph graph = unitTrainingChain(300);
  const TwRemat remat(graph);
  for (std::size_t k : {1U, 8U, 64U}) {
    const Simulation simulation = simulated(graph, remat.schedule(k, kAnyLength));
    const PlanResult result = planner("twremat-k").plan(graph, simulation.peak_bytes, {});
    EXPECT_TRUE(result.feasible);
    EXPECT_LE(result.recompute_ns, simulation.recompute_ns);
  }
}

// Theorem 22 with the constants of its proof, p the largest bag and b the bags: memory
// 2 * 2^(p+1) p log^(p-2) b (M_in + M_max), length 2^(p-1) (p!)^2 b log^(p-2) b.
void expectWithinTheoremSeven(const Graph& graph) {
  const PwRemat remat(graph);
  const Simulation simulation = simulated(graph, remat.schedule(1, kAnyLength));
  const auto p = static_cast<double>(std::max<std::size_t>(remat.path().width() + 1, 2));
  const auto b = static_cast<double>(remat.path().bags.size());
  const double logs = std::pow(std::max(std::log2(b), 1.0), p - 2);
  const auto bytes = static_cast<double>(mostInputBytes(graph) + 1);
  EXPECT_LE(static_cast<double>(simulation.peak_bytes), std::exp2(p + 2) * p * logs * bytes);
  EXPECT_LE(static_cast<double>(simulation.duration_ns),
            std::exp2(p - 1) * std::pow(std::tgamma(p + 1), 2) * b * logs);
}

TEST(PwRemat, StaysWithinTheoremSeven) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    for (bool spine : {false, true}) {
      expectWithinTheoremSeven(randomGraphOfPathwidth(seed, 10 + 10 * seed, 1 + seed % 4, spine));
    }
  }
}

// p = 3 on the ladder of a chain's training (its only order is a spine): the bound is linear in
// log n. Where n doubles, one more level of the recursion holds a bag of 3 and one set of inputs,
// at most 3. From 64 to 4096 ops n doubles 6 times; keeping everything grows 64-fold.
TEST(PwRemat, GrowsWithTheLogarithmOfAChainsDepth) {
  const auto peak = [](int depth) {
    const Graph graph = unitTrainingChain(depth);
    EXPECT_EQ(PwRemat(graph).path().width(), 2U);
    return simulated(graph, PwRemat(graph).schedule(1, kAnyLength)).peak_bytes;
  };
  EXPECT_LE(peak(2048), peak(32) + 6 * (3 + 3));
}

TEST(PwRemat, IsLegalWhateverTheLeaves) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph =
        seed % 2 == 0 ? randomGraph(seed, 2 + seed % 30) : randomOrderGraph(seed, 2 + seed);
    for (std::size_t leaf : {1U, 4U, 1000U}) {
      simulated(graph, PwRemat(graph).schedule(leaf, {1'000'000}));
    }
  }
}

TEST(TwRemat, IsLegalOnRecordedPrograms) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = randomGraph(seed, 2 + seed % 40);
    for (std::size_t k : {1U, 4U, 1000U}) simulated(graph, TwRemat(graph).schedule(k, {1'000'000}));
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
