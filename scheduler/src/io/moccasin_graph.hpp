// Graphs of moccasin2023: networkx node-link JSON, as its random layered graphs and Checkmate's
// training graphs are published.
#pragma once

#include <string>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

// The paper's model (section 2): each node is an op with one output value, any node may be computed
// again, nothing else takes memory. Ops come in the input topological order: `order` of the file's
// graph attributes, else the order of its nodes. Durations keep the file's unit (FLOP, cycles).
// Throws std::invalid_argument: what is wrong and where.
Graph moccasinGraphFromJson(const std::string& text);

}  // namespace ebbtide::scheduler
