// Graphs from files: recorded traces, the published instances of the papers, our own form.
#pragma once

#include <string>
#include <string_view>

#include "ebbtide/scheduler/cost_model.hpp"
#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

enum class GraphFormat {
  kAuto,      // by the first bytes
  kTrace,     // "ebbtide-trace-1"
  kKusumoto,  // text of kusumoto2019's authors
  kMoccasin,  // networkx node-link JSON of moccasin2023
  kChain,     // "ebbtide-chain-1", in rotor2024's notation
  kGraph,     // "ebbtide-graph-1": a Graph as it is
};

// Throws std::invalid_argument naming the known formats ("auto", "trace", "kusumoto", …).
GraphFormat graphFormatFromName(std::string_view name);

// `file` may be compressed by gzip. Throws std::invalid_argument: what is wrong and where (the
// line, or the list and its index).
Graph readGraph(const std::string& file, GraphFormat format, CostModel model);

std::string toJson(const Graph& graph);  // "ebbtide-graph-1"

}  // namespace ebbtide::scheduler
