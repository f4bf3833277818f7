// What a microbatch of each stage of a rank costs, from the rank's recorded step.
#pragma once

#include <vector>

#include "ebbtide/scheduler/joined_ranks.hpp"
#include "ebbtide/scheduler/rank_actions.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// Of each part: everything kept and, where there is something to replay, all recomputed. Medians
// over microbatches. What is live besides them where the rank holds the most counts as live for the
// whole step, in even shares. Precondition: `actions` are the trace's, without a refusal. Throws
// std::invalid_argument like buildGraph().
std::vector<PartCosts> costsOfParts(const Trace& trace, const RankActions& actions);

}  // namespace ebbtide::scheduler
