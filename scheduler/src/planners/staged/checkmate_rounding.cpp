#include "planners/staged/checkmate_rounding.hpp"

namespace ebbtide::scheduler {
namespace {

class Completion {
 public:
  Completion(const Graph& graph, const StagedRuns& runs,
             const std::function<bool(OpId, ValueId)>& retained)
      : graph_(graph), runs_(runs), retained_(retained), leaving_(graph.values.size(), false) {}

  // From the last stage back: what a stage must retain, the one before it has or makes.
  std::vector<RunKey> run() {
    for (OpId stage = static_cast<OpId>(graph_.ops.size()); stage-- > 0;) complete(stage);
    return std::move(replays_);
  }

 private:
  void complete(OpId stage) {
    std::vector<bool> entering(graph_.values.size(), false), runs(graph_.ops.size(), false);
    runs[stage] = true;
    // A copy for a read or a retention: retained, or made in this stage.
    const auto need = [&](ValueId value) {
      const OpId producer = graph_.values[value].producer;
      if (graph_.values[value].pinned || producer == stage) return;
      const bool remade = producer != kNone && runs_.may(stage, producer);
      if (stage <= runs_.heldUntil(value) || !remade || retained_(stage, value)) {
        entering[value] = true;
      } else {
        runs[producer] = true;
      }
    };
    for (std::size_t value = 0; value < leaving_.size(); ++value) {
      if (leaving_[value]) need(static_cast<ValueId>(value));
    }
    for (OpId op = stage; op >= 0; --op) {
      if (!runs[op]) continue;
      if (op != stage) replays_.emplace_back(stage, op);
      for (ValueId input : graph_.ops[op].inputs) need(input);
    }
    leaving_ = std::move(entering);
  }

  const Graph& graph_;
  const StagedRuns& runs_;
  const std::function<bool(OpId, ValueId)>& retained_;
  std::vector<bool> leaving_;  // retained into the stage after the one at hand
  std::vector<RunKey> replays_;
};

}  // namespace

std::vector<RunKey> completedReplays(const Graph& graph, const StagedRuns& runs,
                                     const std::function<bool(OpId, ValueId)>& retained) {
  return Completion(graph, runs, retained).run();
}

}  // namespace ebbtide::scheduler
