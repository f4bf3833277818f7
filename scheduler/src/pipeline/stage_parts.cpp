#include "pipeline/stage_parts.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace ebbtide::scheduler {
namespace {

class Parts {
 public:
  Parts(const Trace& trace, const std::vector<std::int32_t>& forward_of_op, std::int32_t forwards)
      : trace_(trace), forward_of_op_(forward_of_op), parameters_(forwards) {}

  StageParts find() {
    markShared();
    markConstants();
    collectParameters();
    groupAlike();
    if (!areEven()) joinOverlapping();
    if (out_.parts > 1)
      findPrevious();
    else
      out_.previous.assign(parameters_.size(), kNone);
    return std::move(out_);
  }

 private:
  // What is received is a leaf that requires grad, too: of one microbatch. Where there is but one
  // microbatch nothing is shared, and each forward is a part.
  void markShared() {
    std::vector<std::int32_t> reader(trace_.values.size(), kNone);
    shared_.assign(trace_.values.size(), false);
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      const std::int32_t forward = forward_of_op_[i];
      if (forward == kNone) continue;
      for (const ValueId v : trace_.ops[i].inputs) {
        if (!isParameter(v)) continue;
        if (reader[v] != kNone && reader[v] != forward) shared_[v] = true;
        reader[v] = forward;
      }
    }
  }

  bool isParameter(ValueId v) const {
    return trace_.values[v].parameter && trace_.values[v].producer == kNone;
  }

  // Made of parameters alone, as their copies of lower precision are.
  void markConstants() {
    constant_ = shared_;
    for (const TraceOp& op : trace_.ops) {
      const bool all = !op.inputs.empty() && std::all_of(op.inputs.begin(), op.inputs.end(),
                                                         [&](ValueId v) { return constant_[v]; });
      for (const ValueId v : op.outputs) constant_[v] = constant_[v] || all;
    }
  }

  void collectParameters() {
    std::vector<std::int32_t> seen(trace_.values.size(), kNone);
    std::vector<ValueId> open;
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      const std::int32_t forward = forward_of_op_[i];
      if (forward == kNone) continue;
      open = trace_.ops[i].inputs;
      while (!open.empty()) {
        const ValueId v = open.back();
        open.pop_back();
        if (std::exchange(seen[v], forward) == forward) continue;
        if (isParameter(v)) parameters_[forward].push_back(v);
        if (!constant_[v] || shared_[v]) continue;
        const std::vector<ValueId>& from = trace_.ops[trace_.values[v].producer].inputs;
        open.insert(open.end(), from.begin(), from.end());
      }
    }
    for (std::vector<ValueId>& of_one : parameters_) {
      const auto own = [&](ValueId v) { return !shared_[v]; };
      if (!std::all_of(of_one.begin(), of_one.end(), own)) std::erase_if(of_one, own);
      std::sort(of_one.begin(), of_one.end());
      of_one.erase(std::unique(of_one.begin(), of_one.end()), of_one.end());
    }
  }

  void groupAlike() {
    std::map<std::vector<ValueId>, std::int32_t> parts;
    for (const std::vector<ValueId>& of_one : parameters_) {
      out_.part_of.push_back(
          parts.try_emplace(of_one, static_cast<std::int32_t>(parts.size())).first->second);
    }
    out_.parts = static_cast<std::int32_t>(parts.size());
  }

  bool areEven() const {
    std::vector<std::int32_t> forwards(out_.parts, 0);
    for (const std::int32_t part : out_.part_of) ++forwards[part];
    return std::adjacent_find(forwards.begin(), forwards.end(), std::not_equal_to<>()) ==
           forwards.end();
  }

  // Microbatches that use some of the parameters only, as with experts.
  void joinOverlapping() {
    std::vector<std::int32_t> root(out_.parts);
    std::iota(root.begin(), root.end(), 0);
    const auto rootOf = [&](std::int32_t part) {
      while (root[part] != part) part = root[part];
      return part;
    };
    std::map<ValueId, std::int32_t> first_user;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      for (const ValueId v : parameters_[i]) {
        const std::int32_t other = first_user.try_emplace(v, out_.part_of[i]).first->second;
        const std::int32_t a = rootOf(other), b = rootOf(out_.part_of[i]);
        root[std::max(a, b)] = std::min(a, b);
      }
    }
    std::map<std::int32_t, std::int32_t> number;  // parts stay in the order of their first forwards
    for (std::int32_t& part : out_.part_of) {
      part =
          number.try_emplace(rootOf(part), static_cast<std::int32_t>(number.size())).first->second;
    }
    out_.parts = static_cast<std::int32_t>(number.size());
  }

  void findPrevious() {
    out_.previous.assign(parameters_.size(), kNone);
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      const std::int32_t forward = forward_of_op_[i];
      if (forward == kNone) continue;
      for (const ValueId v : trace_.ops[i].inputs) {
        const OpId producer = trace_.values[v].producer;
        const std::int32_t maker = producer == kNone ? kNone : forward_of_op_[producer];
        if (maker == kNone || constant_[v] || out_.part_of[maker] == out_.part_of[forward])
          continue;
        std::int32_t& previous = out_.previous[forward];
        if (previous != kNone && previous != maker) {
          out_.refusal = "op " + std::to_string(i) + " reads what a second forward pass made";
          return;
        }
        previous = maker;
      }
    }
  }

  const Trace& trace_;
  const std::vector<std::int32_t>& forward_of_op_;
  std::vector<bool> shared_;    // of each value: a parameter that several forwards read
  std::vector<bool> constant_;  // of each value: such a one, or made of such alone
  std::vector<std::vector<ValueId>> parameters_;  // of each forward
  StageParts out_;
};

}  // namespace

StageParts partsOf(const Trace& trace, const std::vector<std::int32_t>& forward_of_op,
                   std::int32_t forwards) {
  return Parts(trace, forward_of_op, forwards).find();
}

}  // namespace ebbtide::scheduler
