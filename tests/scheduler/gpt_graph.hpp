// A synthetic training step of a GPT in half precision: what a recorder would hand over, with
// durations from 100 TFLOP/s for products and 1.5 TB/s for everything else.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ebbtide/scheduler/graph.hpp"

namespace ebbtide::scheduler {

struct GptShape {
  std::int64_t layers = 12, batch = 8, tokens = 1024, width = 768, heads = 12;
  bool fused_attention = false;  // one op that saves no tokens x tokens matrix
};

class GptGraph {
 public:
  explicit GptGraph(const GptShape& shape) : shape_(shape) {
    rows_ = shape.batch * shape.tokens;
    hidden_ = rows_ * shape.width * 2;
    squares_ = shape.batch * shape.heads * shape.tokens * shape.tokens;
    const std::int64_t parameters = 12 * shape.width * shape.width * shape.layers;
    fixed_ = parameters * 16;  // weight, gradient, two moments
    weight_ = value(0, kNone);
    graph_.values[weight_].pinned = true;
    graph_.values[weight_].bytes = parameters * 2;
    ValueId x = value(hidden_, kNone);
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) x = block(x);
    for (std::size_t i = events_.size(); i-- > 0;) {
      Op& op = graph_.ops.emplace_back(events_[i]);
      op.fixed_bytes = fixed_ + 2 * hidden_;
    }
    finish();
  }
  Graph take() { return std::move(graph_); }

 private:
  ValueId value(Bytes bytes, OpId producer) {
    graph_.values.push_back({.bytes = bytes, .producer = producer});
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  // A forward op and the backward event that reads `saved` (of its inputs and outputs, as indices:
  // inputs first).
  std::vector<ValueId> op(const std::string& name, std::vector<ValueId> inputs,
                          const std::vector<Bytes>& outputs, double flops,
                          const std::vector<std::size_t>& saved) {
    const OpId id = static_cast<OpId>(graph_.ops.size());
    double moved = 0;
    for (ValueId input : inputs) {
      if (!graph_.values[input].pinned) moved += static_cast<double>(graph_.values[input].bytes);
    }
    Op forward;
    for (Bytes bytes : outputs) {
      forward.outputs.push_back(value(bytes, id));
      moved += static_cast<double>(bytes);
    }
    forward.name = name;
    forward.inputs = inputs;
    forward.rerunnable = true;
    forward.fixed_bytes = fixed_;
    forward.duration_ns = static_cast<Nanoseconds>(5000 + flops / 1e5 + moved / 1.5e3);
    graph_.ops.push_back(forward);
    Op event;
    event.name = name + "_backward";
    event.backward = true;
    event.duration_ns = 2 * forward.duration_ns;
    for (std::size_t index : saved) {
      event.inputs.push_back(index < inputs.size() ? inputs[index]
                                                   : forward.outputs[index - inputs.size()]);
    }
    events_.push_back(event);
    return forward.outputs;
  }

  ValueId product(const std::string& name, ValueId input, Bytes bytes, double flops) {
    return op(name, {input, weight_}, {bytes}, flops, {0, 1})[0];
  }
  ValueId dropout(ValueId input) {
    const Bytes bytes = graph_.values[input].bytes;
    return op("dropout", {input}, {bytes, bytes / 2}, 0, {2})[0];
  }
  ValueId norm(ValueId input) {
    return op("layer_norm", {input}, {hidden_, rows_ * 4, rows_ * 4}, 0, {0, 2, 3})[0];
  }

  ValueId attention(ValueId qkv, double flops) {
    if (shape_.fused_attention) {
      return op("attention", {qkv}, {hidden_, rows_ * 4 * shape_.heads}, 2 * flops, {0, 1, 2})[0];
    }
    const ValueId scores = op("scores", {qkv}, {2 * squares_}, flops, {0})[0];
    const ValueId masked = op("masked_fill_", {scores}, {2 * squares_}, 0, {})[0];
    graph_.values[scores].overwritten_by = graph_.values[masked].producer;
    graph_.values[masked].previous_epoch = scores;
    const ValueId weights = dropout(op("softmax", {masked}, {2 * squares_}, 0, {1})[0]);
    const ValueId mixed = op("mix", {weights, qkv}, {hidden_}, flops, {0, 1})[0];
    return op("contiguous", {mixed}, {hidden_}, 0, {})[0];
  }

  ValueId block(ValueId x) {
    const double rows = static_cast<double>(rows_), width = static_cast<double>(shape_.width);
    const double square = 2 * rows * width * width;  // operations of a width x width product
    const double mix = 2 * rows * static_cast<double>(shape_.tokens) * width;
    const ValueId qkv = product("qkv", norm(x), 3 * hidden_, 3 * square);
    const ValueId out = dropout(product("proj", attention(qkv, mix), hidden_, square));
    const ValueId middle = op("add", {x, out}, {hidden_}, 0, {})[0];
    const ValueId wide = product("fc", norm(middle), 4 * hidden_, 4 * square);
    const ValueId active = op("gelu", {wide}, {4 * hidden_}, 0, {0})[0];
    const ValueId narrow = dropout(product("fc2", active, hidden_, 4 * square));
    return op("add", {middle, narrow}, {hidden_}, 0, {})[0];
  }

  // The program lets go of a value after its last forward reader.
  void finish() {
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
      if (graph_.ops[id].backward) continue;
      for (ValueId input : graph_.ops[id].inputs) {
        graph_.values[input].last_reference = static_cast<OpId>(id);
      }
    }
  }

  GptShape shape_;
  std::int64_t rows_ = 0;
  Bytes hidden_ = 0, squares_ = 0, fixed_ = 0;
  ValueId weight_ = kNone;
  Graph graph_;
  std::vector<Op> events_;
};

inline Graph gptGraph(const GptShape& shape) {
  return GptGraph(shape).take();
}

}  // namespace ebbtide::scheduler
