// The smallest peak of memory-persistent schedules of a chain, exact to the byte.
#pragma once

#include "planners/chain/chain_costs.hpp"

namespace ebbtide::scheduler {

struct SmallestPeak {
  Bytes bytes = 0;  // beyond input[0]
  ChainSchedule schedule;
};

// The recursion of rotor2024, Theorem 4.8, for memory in place of time. Time cubic in the stages.
SmallestPeak smallestPeak(const ChainCosts& costs);

}  // namespace ebbtide::scheduler
