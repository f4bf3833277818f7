// What a microbatch of each stage of a rank costs, from the rank's recorded step.
#pragma once

#include <string>
#include <vector>

#include "ebbtide/scheduler/joined_ranks.hpp"
#include "ebbtide/scheduler/rank_actions.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

struct RecordedCosts {
  std::vector<PartCosts> parts;
  std::vector<Bytes> besides_bytes;  // of each action, above the fixed ones
  std::string no_curves;             // why they are medians; "": they are curves
};

// Of each part its curve within the budget, as the rank itself would plan it (RankCurves). Where
// its microbatches are not alike medians over them: everything kept and, where there is something
// to replay, all recomputed. What is live besides microbatches is fixed as far as it is there from
// the first action on, in even shares. Deterministic: no deadline holds for the curves,
// which take the greedy planner ten times a part. Precondition: `actions` are the trace's, without
// a refusal. Throws std::invalid_argument like buildGraph().
RecordedCosts costsOfParts(const Trace& trace, const RankActions& actions, Bytes budget_bytes);

}  // namespace ebbtide::scheduler
