// A Chain as a file, "ebbtide-chain-1" (docs/formats.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "model/chain.hpp"

namespace ebbtide::scheduler {

// Throws std::invalid_argument naming the list and the index that are wrong.
Chain chainFromTree(const nlohmann::json& tree);

}  // namespace ebbtide::scheduler
