// What part of a step's activations can be computed again, and why the rest cannot.
#pragma once

#include <map>
#include <string>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// In sum TraceGraph::activation_bytes, if that is more than what the step lets go of.
struct ActivationShares {
  Bytes recomputable_bytes = 0;             // or decodable from bits
  std::map<std::string, Bytes> kept_bytes;  // by reason
};

// `graph` is buildGraph(trace), without encoded values.
ActivationShares activationShares(const Trace& trace, const TraceGraph& graph);

}  // namespace ebbtide::scheduler
