// What part of a step's activations can be computed again, and why the rest cannot.
#pragma once

#include <map>
#include <string>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::scheduler {

// Of what is live when the backward pass begins and was not when the step did.
struct ActivationShares {
  Bytes recomputable_bytes = 0;             // or decodable from bits
  std::map<std::string, Bytes> kept_bytes;  // by reason

  // What lives besides saved values, such as a graph's own workspace: the shares then add up to so
  // many bytes, unless they are more already.
  void addRestOf(Bytes activation_bytes);
  Bytes totalBytes() const;
};

// `graph` is buildGraph(trace), without encoded values.
ActivationShares activationShares(const Trace& trace, const TraceGraph& graph);

}  // namespace ebbtide::scheduler
