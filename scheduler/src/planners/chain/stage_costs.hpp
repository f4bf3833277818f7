// What the stages of a contracted chain cost: each is run in thought, once for each way.
#pragma once

#include <vector>

#include "planners/chain/chain_contraction.hpp"

namespace ebbtide::scheduler {

// `resident` as residentValues() says, per value.
ChainCosts stageCosts(const Graph& graph, const std::vector<ChainStage>& stages,
                      const std::vector<bool>& resident);

}  // namespace ebbtide::scheduler
