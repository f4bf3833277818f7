#include "io/kusumoto_graph.hpp"

#include <algorithm>
#include <utility>

#include "io/kusumoto_text.hpp"
#include "planners/lower_sets/canonical_model.hpp"

namespace ebbtide::scheduler {
namespace {

Nanoseconds durationOf(const KusumotoFunction& function) {
  // "Convolution2DFunction", "Deconvolution2DFunction"
  const bool convolution = function.type.find("onvolution") != std::string::npos;
  return (convolution ? 10 : 1) * kKusumotoTimeUnit;
}

void sortUnique(std::vector<std::int32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

struct Nodes {
  LowerSetProblem problem;
  std::vector<std::string> types;
};

Nodes paperNodes(const KusumotoFile& file) {
  Nodes nodes;
  LowerSetProblem& problem = nodes.problem;
  std::vector<std::int32_t> node(file.bytes.size(), kNone);
  for (const KusumotoFunction& function : file.functions) {
    if (function.backward) break;
    for (std::size_t output : function.outputs) {
      const auto id = static_cast<std::int32_t>(problem.time.size());
      problem.time.push_back(durationOf(function));
      problem.memory.push_back(file.bytes[output]);
      problem.next.emplace_back();
      for (const auto& input : function.inputs) {
        if (node[input.variable] != kNone) problem.next[node[input.variable]].push_back(id);
      }
      node[output] = id;
      nodes.types.push_back(function.type);
    }
  }
  for (auto& next : problem.next) sortUnique(next);
  return nodes;
}

class RealGraph {
 public:
  explicit RealGraph(const KusumotoFile& file)
      : file_(file),
        value_(file.bytes.size(), kNone),
        gradient_(file.bytes.size(), kNone),
        fixed_gradient_(file.bytes.size(), false) {}

  Graph take() {
    addGraphInputs();
    for (const KusumotoFunction& function : file_.functions) {
      const OpId id = static_cast<OpId>(graph_.ops.size());
      Op op;
      op.name = function.type;
      op.duration_ns = (function.backward ? 2 : 1) * durationOf(function);
      op.rerunnable = !function.backward;
      op.backward = function.backward;
      addInputs(function, op);
      function.backward ? addGradients(function, id, op) : addValues(function, id, op);
      sortUnique(op.inputs);
      op.fixed_bytes = fixed_;
      graph_.ops.push_back(std::move(op));
    }
    setLastReferences();
    return std::move(graph_);
  }

 private:
  ValueId addValue(Bytes bytes, OpId producer) {
    graph_.values.push_back({.bytes = bytes, .producer = producer});
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  void addGraphInputs() {
    std::vector<bool> made(file_.bytes.size(), false);
    for (const KusumotoFunction& function : file_.functions) {
      if (function.backward) break;
      for (std::size_t output : function.outputs) made[output] = true;
    }
    for (std::size_t variable = 0; variable < made.size(); ++variable) {
      if (made[variable]) continue;
      value_[variable] = addValue(file_.bytes[variable], kNone);
      graph_.values.back().pinned = true;
      fixed_ += file_.bytes[variable];
    }
  }

  // The gradient that nothing made is the loss's own, a constant.
  void addInputs(const KusumotoFunction& function, Op& op) const {
    for (const auto& input : function.inputs) {
      const ValueId id = (input.gradient ? gradient_ : value_)[input.variable];
      if (id != kNone) op.inputs.push_back(id);
    }
  }

  void addValues(const KusumotoFunction& function, OpId id, Op& op) {
    for (std::size_t output : function.outputs) {
      op.outputs.push_back(value_[output] = addValue(file_.bytes[output], id));
    }
  }

  void addGradients(const KusumotoFunction& function, OpId id, Op& op) {
    for (std::size_t output : function.outputs) {
      if (graph_.values[value_[output]].pinned) {
        if (!fixed_gradient_[output]) fixed_ += file_.bytes[output];
        fixed_gradient_[output] = true;
        continue;
      }
      const ValueId before = std::exchange(gradient_[output], addValue(file_.bytes[output], id));
      op.outputs.push_back(gradient_[output]);
      if (before == kNone) continue;
      op.inputs.push_back(before);
      graph_.values[before].overwritten_by = id;
      graph_.values.back().previous_epoch = before;
    }
  }

  void setLastReferences() {
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
      for (ValueId input : graph_.ops[id].inputs) {
        Value& value = graph_.values[input];
        const bool gradient = value.producer != kNone && graph_.ops[value.producer].backward;
        if (value.pinned || (graph_.ops[id].backward && !gradient)) continue;
        value.last_reference = static_cast<OpId>(id);
      }
    }
  }

  const KusumotoFile& file_;
  Graph graph_;
  std::vector<ValueId> value_, gradient_;  // per variable; of a gradient the latest epoch
  std::vector<bool> fixed_gradient_;
  Bytes fixed_ = 0;
};

}  // namespace

Graph kusumotoGraph(const std::string& text, CostModel model) {
  const KusumotoFile file = parseKusumotoText(text);
  Graph graph;
  if (model == CostModel::kReal) {
    graph = RealGraph(file).take();
  } else {
    const Nodes nodes = paperNodes(file);
    graph = canonicalGraph(nodes.problem);
    for (std::size_t v = 0; v < nodes.types.size(); ++v) graph.ops[v].name = nodes.types[v];
  }
  checkGraph(graph);
  return graph;
}

}  // namespace ebbtide::scheduler
