// A Graph as a file, "ebbtide-graph-1" (docs/formats.md); writing it is in graph_file.hpp.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

// Throws std::invalid_argument naming the list and the index that are wrong.
Graph graphFromTree(const nlohmann::json& tree);

}  // namespace ebbtide::scheduler
