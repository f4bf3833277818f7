// Plans of a step joined from plans of its blocks: rotor2024's program over the chain of blocks,
// where each may save all, less at the price of replays in its backward, or nothing, to run again
// from the last kept input of a block.
#pragma once

#include <functional>
#include <vector>

#include "ebbtide/scheduler/planner.hpp"
#include "planners/chain/chain_search.hpp"

namespace ebbtide::scheduler {

// Gives each stage the partial saves on its block's curve; distinct blocks are solved once. Returns
// how many those are. `late` may end it early: then stages have fewer ways.
std::size_t solveBlocks(const Graph& graph, std::vector<ChainContraction>& chains,
                        const std::function<bool()>& late);

// The best joined plan, judged by the simulator; keeping everything where a deadline ends it or the
// graph is no chain of blocks.
PlanResult joinBlocks(const Graph& graph, Bytes budget_bytes, const PlannerOptions& options);

}  // namespace ebbtide::scheduler
