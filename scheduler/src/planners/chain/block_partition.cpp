#include "planners/chain/block_partition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

namespace ebbtide::scheduler {
namespace {

class BlockMaker {
 public:
  BlockMaker(const Graph& graph, const ChainStage& stage) : graph_(graph), stage_(stage) {
    block_.graph.lazy_outputs = graph.lazy_outputs;
    block_.ops = stage.forward;
    block_.ops.insert(block_.ops.end(), stage.backward.begin(), stage.backward.end());
    block_.forward_ops = stage.forward.size();
    for (std::size_t i = 0; i < block_.ops.size(); ++i) {
      local_op_.emplace(block_.ops[i], static_cast<OpId>(i));
    }
    made_ = stage.made;
    std::sort(made_.begin(), made_.end());
  }

  Block make() {
    for (OpId op : block_.ops) addOp(graph_.ops[op]);
    for (std::size_t i = 0; i < block_.values.size(); ++i) setEnds(block_.values[i], i);
    if (stage_.output != kNone) {
      block_.output = localValue(stage_.output);
      Value& output = block_.graph.values[block_.output];
      output.last_reference =
          std::max(output.last_reference, static_cast<OpId>(block_.forward_ops) - 1);
    }
    shiftFixedBytes();
    return std::move(block_);
  }

 private:
  bool mine(ValueId value) const { return std::binary_search(made_.begin(), made_.end(), value); }

  ValueId localValue(ValueId value) {
    const auto [found, added] =
        local_value_.try_emplace(value, static_cast<ValueId>(block_.values.size()));
    if (added) {
      block_.values.push_back(value);
      const bool own = mine(value);
      block_.graph.values.push_back(
          {.bytes = own ? graph_.values[value].bytes : 0, .pinned = !own});
    }
    return found->second;
  }

  OpId localOp(OpId op) const {
    const auto found = local_op_.find(op);
    return found == local_op_.end() ? kNone : found->second;
  }

  void addOp(const Op& whole) {
    const OpId id = static_cast<OpId>(block_.graph.ops.size());
    Op op = whole;
    op.name.clear();
    for (ValueId& input : op.inputs) input = localValue(input);
    for (ValueId& output : op.outputs) {
      output = localValue(output);
      block_.graph.values[output].producer = id;
    }
    block_.graph.ops.push_back(std::move(op));
  }

  // Natural end and overwriting, as far as they are the block's own.
  void setEnds(ValueId whole, std::size_t id) {
    Value& value = block_.graph.values[id];
    if (value.pinned) return;
    const Value& from = graph_.values[whole];
    const auto after = std::upper_bound(block_.ops.begin(), block_.ops.end(), from.last_reference);
    value.last_reference = static_cast<OpId>(after - block_.ops.begin()) - 1;
    if (from.overwritten_by != kNone) value.overwritten_by = localOp(from.overwritten_by);
    if (from.previous_epoch != kNone && mine(from.previous_epoch)) {
      value.previous_epoch = localValue(from.previous_epoch);
    }
  }

  void shiftFixedBytes() {
    Bytes least = std::numeric_limits<Bytes>::max();
    for (const Op& op : block_.graph.ops) least = std::min(least, op.fixedAtStart());
    for (Op& op : block_.graph.ops) {
      op.fixed_at_start = op.fixedAtStart() - least;
      op.fixed_bytes -= least;
    }
  }

  const Graph& graph_;
  const ChainStage& stage_;
  Block block_;
  std::vector<ValueId> made_;
  std::unordered_map<OpId, OpId> local_op_;
  std::unordered_map<ValueId, ValueId> local_value_;
};

std::int64_t durationClass(Nanoseconds duration) {
  return std::llround(20 * std::log(static_cast<double>(duration) + 1));
}

}  // namespace

Block blockOf(const Graph& graph, const ChainStage& stage) {
  return BlockMaker(graph, stage).make();
}

std::vector<std::int64_t> fingerprint(const Block& block) {
  std::vector<std::int64_t> print = {static_cast<std::int64_t>(block.forward_ops), block.output};
  for (const Op& op : block.graph.ops) {
    print.insert(print.end(), {op.rerunnable, durationClass(op.duration_ns), op.workspace_bytes});
    for (const auto* list : {&op.inputs, &op.outputs}) {
      print.push_back(static_cast<std::int64_t>(list->size()));
      print.insert(print.end(), list->begin(), list->end());
    }
  }
  for (const Value& value : block.graph.values) {
    print.insert(print.end(), {value.pinned, value.bytes, value.last_reference,
                               value.overwritten_by, value.previous_epoch});
  }
  return print;
}

}  // namespace ebbtide::scheduler
