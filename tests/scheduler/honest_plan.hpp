// What a plan says of itself is what the validator and the simulator say of its schedule.
#pragma once

#include <gtest/gtest.h>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"

namespace ebbtide::scheduler {

inline void expectHonest(const Graph& graph, Bytes budget, const PlanResult& result) {
  ASSERT_EQ(validate(graph, result.schedule).value_or(""), "");
  const Simulation simulation = simulate(graph, result.schedule);
  EXPECT_EQ(result.peak_bytes, simulation.peak_bytes);
  EXPECT_EQ(result.recompute_ns, simulation.recompute_ns);
  EXPECT_GE(result.recompute_ns, 0);
  EXPECT_EQ(result.feasible, result.peak_bytes <= budget);
}

}  // namespace ebbtide::scheduler
