#include "model/chain.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace ebbtide::scheduler {
namespace {

// So that any sum of two totals, and twice one, fits 63 bits.
constexpr std::int64_t kMostTotal = std::numeric_limits<std::int64_t>::max() / 8;

void checkList(const std::vector<std::int64_t>& list, const char* name, std::size_t stages,
               std::int64_t& total) {
  if (list.size() != stages) {
    throw std::invalid_argument("a chain of " + std::to_string(stages) + " stages has " +
                                std::to_string(list.size()) + " entries in " + name);
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string entry = std::string(name) + "[" + std::to_string(i) + "]";
    if (list[i] < 0) throw std::invalid_argument(entry + " is negative");
    if (list[i] > kMostTotal - total) {
      throw std::invalid_argument("the chain's sums up to " + entry + " do not fit 63 bits");
    }
    total += list[i];
  }
}

// Builds the graph stage by stage.
class ChainGraphBuilder {
 public:
  ChainGraphBuilder(const Chain& chain, CostModel model)
      : chain_(chain), paper_(model == CostModel::kPaper), stages_(chain.stages()) {
    graph_.lazy_outputs = paper_;
    activation_.push_back(addValue(chain.activation_bytes[0], kNone));
  }

  Graph build() {
    for (std::size_t stage = 0; stage < stages_; ++stage) addForward(stage);
    ValueId gradient = kNone;
    for (std::size_t stage = stages_; stage-- > 0;) gradient = addBackward(stage, gradient);
    // Nothing reads δ⁰, so as a value it would not be made.
    graph_.ops.back().fixed_bytes += chain_.activation_bytes[0];
    return std::move(graph_);
  }

 private:
  ValueId addValue(Bytes bytes, OpId producer) {
    graph_.values.push_back({.bytes = bytes, .producer = producer});
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  void addForward(std::size_t stage) {
    const OpId id = static_cast<OpId>(stage);
    Op op;
    op.name = "F" + std::to_string(stage + 1);
    op.duration_ns = chain_.forward_ns[stage];
    op.fixed_bytes = op.workspace_bytes = chain_.forward_workspace_bytes[stage];
    op.fixed_at_start = 0;
    op.rerunnable = true;
    op.inputs = {activation_[stage]};
    // In the paper's model the schedule alone decides how long xˡ lives.
    if (!paper_) graph_.values[activation_[stage]].last_reference = id;
    Bytes inner = chain_.saved_bytes[stage];
    if (stage + 1 < stages_) {
      const Bytes activation = chain_.activation_bytes[stage + 1];
      activation_.push_back(addValue(activation, id));
      op.outputs.push_back(activation_.back());
      inner = std::max<Bytes>(inner - activation, 0);
    }
    inner_.push_back(addValue(inner, id));
    op.outputs.push_back(inner_.back());
    graph_.ops.push_back(std::move(op));
  }

  // Returns δ of the stage before, if there is one.
  ValueId addBackward(std::size_t stage, ValueId gradient) {
    Op op;
    op.name = "B" + std::to_string(stage + 1);
    op.duration_ns = chain_.backward_ns[stage];
    op.fixed_bytes = chain_.backward_workspace_bytes[stage];
    op.fixed_at_start = 0;
    op.backward = true;
    op.inputs = {inner_[stage], activation_[stage]};
    if (gradient != kNone) op.inputs.push_back(gradient);
    if (stage + 1 < stages_) op.inputs.push_back(activation_[stage + 1]);
    ValueId next = kNone;
    if (stage > 0) {
      next = addValue(chain_.activation_bytes[stage], static_cast<OpId>(graph_.ops.size()));
      op.outputs = {next};
    }
    graph_.ops.push_back(std::move(op));
    return next;
  }

  const Chain& chain_;
  const bool paper_;
  const std::size_t stages_;
  std::vector<ValueId> activation_, inner_;
  Graph graph_;
};

}  // namespace

void checkChain(const Chain& chain) {
  const std::size_t stages = chain.stages();
  if (stages == 0) throw std::invalid_argument("a chain has at least one stage, the loss");
  std::int64_t bytes = 0, time = 0;
  checkList(chain.activation_bytes, "activation_bytes", stages, bytes);
  checkList(chain.saved_bytes, "saved_bytes", stages, bytes);
  checkList(chain.forward_workspace_bytes, "forward_workspace_bytes", stages, bytes);
  checkList(chain.backward_workspace_bytes, "backward_workspace_bytes", stages, bytes);
  checkList(chain.forward_ns, "forward_seconds", stages, time);
  checkList(chain.backward_ns, "backward_seconds", stages, time);
}

Graph chainGraph(const Chain& chain, CostModel model) {
  checkChain(chain);
  return ChainGraphBuilder(chain, model).build();
}

}  // namespace ebbtide::scheduler
