#include "model/forward_phase.hpp"

namespace ebbtide::scheduler {

std::vector<ForwardPhase> forwardPhases(const Graph& graph) {
  std::vector<ForwardPhase> phases;
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    if (graph.ops[id].backward) continue;
    if (id == 0 || graph.ops[id - 1].backward) phases.push_back({id, id});
    phases.back().end = id + 1;
  }
  return phases;
}

}  // namespace ebbtide::scheduler
