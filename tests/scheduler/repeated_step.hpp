// A step that runs one program for several microbatches, as one rank of a pipeline does.
#pragma once

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/microbatch.hpp"
#include "ebbtide/scheduler/rank_actions.hpp"

namespace ebbtide::scheduler {

// In an order of forward (m) and backward passes (~m). With a seed there is more in the step, not
// the same for each microbatch: gaps in backward passes, receives at the end of forward passes, and
// ops of nobody between the actions that read what a microbatch made.
class RepeatedStep {
 public:
  RepeatedStep(const Graph& program, int microbatches, const std::vector<int>& order,
               std::uint64_t seed = 0)
      : program_(program),
        ops(microbatches),
        values_(microbatches),
        local_ops_(microbatches),
        random_(seed),
        more_(seed != 0) {
    shareParameters();
    for (const int action : order) {
      const int m = action < 0 ? ~action : action;
      const auto begin = graph.ops.size();
      run(m, action < 0);
      if (more_ && action >= 0 && chance(25)) receive();
      addAction(m, action < 0, begin);
      if (more_ && chance(40)) readFromOutside(m, chance(50));
    }
    for (int m = 0; m < microbatches; ++m) finish(m);
    for (const auto& [value, op] : read_outside_) {
      OpId& last = graph.values[value].last_reference;
      if (!graph.ops[op].backward) last = std::max(last, op);
    }
    checkGraph(graph);
  }

  // As it would come of a trace with an event for each op.
  TraceGraph recorded() const {
    TraceGraph step;
    step.graph = graph;
    for (std::size_t op = 0; op < graph.ops.size(); ++op) step.event_of.push_back(op);
    return step;
  }

 private:
  const Graph& program_;

 public:
  Graph graph;
  std::vector<MicrobatchOps> ops;
  RankActions actions = {.parts = 1};  // of recorded(), chunks in the order of their forwards
  int gaps_in_front = 0, outside = 0;

 private:
  bool chance(unsigned percent) { return random_() % 100 < percent; }

  void addAction(int m, bool backward, std::size_t begin) {
    if (!backward) actions.chunks.emplace_back();
    actions.actions.push_back(
        {.kind = backward ? PipelineAction::Kind::kBackward : PipelineAction::Kind::kForward,
         .chunk = m,
         .first_event = begin,
         .end_event = graph.ops.size()});
  }

  void addGap(std::vector<OpId>& of) {
    if (!more_ || !chance(25)) return;
    of.push_back(static_cast<OpId>(graph.ops.size()));
    graph.ops.push_back({.name = "backward",
                         .fixed_bytes = static_cast<Bytes>(random_() % 60),
                         .backward = true,
                         .inputs = {}});
  }

  // Into a buffer that is made for it.
  void receive() {
    const auto buffer = static_cast<ValueId>(graph.values.size());
    const auto made = static_cast<OpId>(graph.ops.size());
    graph.ops.push_back({.name = "aten::empty_strided", .outputs = {buffer}});
    graph.ops.push_back({.name = "c10d::recv_", .inputs = {buffer}});
    graph.values.push_back({.bytes = static_cast<Bytes>(random_() % 60),
                            .producer = made,
                            .last_reference = made + 1});
  }

  // Something that the program made in this microbatch and never writes over.
  void readFromOutside(int m, bool backward) {
    const std::size_t v = random_() % program_.values.size();
    const Value& value = program_.values[v];
    if (value.producer == kNone || value.overwritten_by != kNone) return;
    const ValueId read = values_[m][v];
    read_outside_.emplace_back(read, static_cast<OpId>(graph.ops.size()));
    graph.ops.push_back({.name = "outside", .backward = backward, .inputs = {read}});
    ++outside;
  }

  bool isShared(ValueId v) const {
    return program_.values[v].producer == kNone && program_.values[v].pinned;
  }

  void shareParameters() {
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const Value& value = program_.values[v];
      const bool shared = isShared(static_cast<ValueId>(v));
      for (auto& of : values_) {
        of.push_back(shared ? static_cast<ValueId>(graph.values.size()) : kNone);
      }
      if (!shared) continue;
      graph.values.push_back(value);
      graph.values.back().overwritten_by = graph.values.back().last_reference = kNone;
    }
  }

  void run(int m, bool backward) {
    if (!backward) bear(m);
    std::vector<OpId>& of = backward ? ops[m].backward : ops[m].forward;
    local_ops_[m].resize(program_.ops.size(), kNone);
    for (std::size_t id = 0; id < program_.ops.size(); ++id) {
      Op op = program_.ops[id];
      if (op.backward != backward) continue;
      if (backward) {
        const bool front = of.empty();
        addGap(of);
        gaps_in_front += front && !of.empty();
      }
      for (ValueId& v : op.inputs) v = values_[m][v];
      for (ValueId& v : op.outputs) v = addValue(m, v);
      push(of, m, id, std::move(op));
    }
    if (backward) addGap(of);
  }

  // The batch, as an op of its own.
  void bear(int m) {
    Op inputs;
    inputs.name = "inputs";
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (program_.values[id].producer == kNone && !isShared(id))
        inputs.outputs.push_back(addValue(m, id));
    }
    ops[m].forward.push_back(static_cast<OpId>(graph.ops.size()));
    graph.ops.push_back(std::move(inputs));
  }

  ValueId addValue(int m, ValueId v) {
    values_[m][v] = static_cast<ValueId>(graph.values.size());
    graph.values.push_back(program_.values[v]);
    return values_[m][v];
  }

  void push(std::vector<OpId>& of, int m, std::size_t id, Op op) {
    const auto here = static_cast<OpId>(graph.ops.size());
    of.push_back(here);
    local_ops_[m][id] = here;
    graph.ops.push_back(std::move(op));
  }

  void finish(int m) {
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const Value& from = program_.values[v];
      if (isShared(static_cast<ValueId>(v))) continue;
      Value& value = graph.values[values_[m][v]];
      value.producer =
          from.producer == kNone ? ops[m].forward.front() : local_ops_[m][from.producer];
      for (OpId Value::*at : {&Value::last_reference, &Value::overwritten_by}) {
        if (from.*at != kNone) value.*at = local_ops_[m][from.*at];
      }
      // Microbatches that write a parameter, one after the other: not here.
      const bool shared = from.previous_epoch != kNone && isShared(from.previous_epoch);
      if (from.previous_epoch != kNone)
        value.previous_epoch = shared ? kNone : values_[m][from.previous_epoch];
    }
  }

  std::vector<std::vector<ValueId>> values_;  // of each microbatch, by the program's ids
  std::vector<std::vector<OpId>> local_ops_;
  std::mt19937_64 random_;
  bool more_ = false;
  std::vector<std::pair<ValueId, OpId>> read_outside_;
};

// 1F1B on a rank that holds `in_flight` microbatches.
inline std::vector<int> oneForwardOneBackward(int microbatches, int in_flight) {
  std::vector<int> order;
  for (int m = 0; m < microbatches + in_flight; ++m) {
    if (m >= in_flight) order.push_back(~(m - in_flight));
    if (m < microbatches) order.push_back(m);
  }
  return order;
}

}  // namespace ebbtide::scheduler
