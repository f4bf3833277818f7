// Canonical strategies (kusumoto2019, section 3) as schedules of canonicalGraph().
//
//   forward   V_1 | V_2 | ... | V_k     the values of V_i that are not cached go with its end
//   backward  V_k, then V_k-1 made again from the cache and its backward, ..., V_1
//
// The values of V_k stay for its backward part, which comes at once.
#pragma once

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "planners/lower_sets/lower_set_dp.hpp"

namespace ebbtide::scheduler {

enum class DropTime {
  kSegmentEnd,   // as section 3 has it: simulate()'s peak is formula (2)'s
  kAfterReader,  // right after the last run that reads the copy: liveness analysis (section 4.4)
};

Schedule canonicalSchedule(const Graph& graph, const LowerSetPlan& plan, DropTime drops);

}  // namespace ebbtide::scheduler
