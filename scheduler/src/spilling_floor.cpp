#include "ebbtide/scheduler/spilling_floor.hpp"

#include <algorithm>
#include <vector>

namespace ebbtide::scheduler {
namespace {

// The ops at which the program itself holds the value: from `first` to before `end`.
struct Span {
  OpId first = 0;
  OpId end = 0;
};

std::vector<Span> programsOwn(const Graph& graph) {
  std::vector<Span> spans;
  for (const Value& value : graph.values) {
    const OpId first = value.producer == kNone ? 0 : value.producer;
    const bool counted = !value.pinned && value.natural_last != kNone;
    spans.push_back({first, counted ? std::max(first, value.natural_last + 1) : first});
  }
  // What an op writes in place takes the bytes over.
  for (const Value& value : graph.values) {
    if (value.previous_epoch == kNone) continue;
    Span& taken_over = spans[value.previous_epoch];
    taken_over.end = std::clamp(value.producer, taken_over.first, taken_over.end);
  }
  return spans;
}

}  // namespace

Bytes spillingFloor(const Graph& graph) {
  const std::vector<Span> spans = programsOwn(graph);
  std::vector<Bytes> delta(graph.ops.size() + 1, 0);
  for (std::size_t v = 0; v < spans.size(); ++v) {
    delta[spans[v].first] += graph.values[v].bytes;
    delta[spans[v].end] -= graph.values[v].bytes;
  }
  Bytes held = 0;
  Bytes peak = 0;
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    const auto op = static_cast<OpId>(i);
    held += delta[i];
    Bytes need = graph.ops[i].fixed_bytes + held;
    const auto add = [&](ValueId v) {
      const bool counted = graph.values[v].pinned || (spans[v].first <= op && op < spans[v].end);
      if (!counted) need += graph.values[v].bytes;
    };
    for (const ValueId v : graph.ops[i].inputs) {
      if (graph.values[v].overwritten_by != op) add(v);
    }
    for (const ValueId v : graph.ops[i].outputs) add(v);
    peak = std::max(peak, need);
  }
  return peak;
}

}  // namespace ebbtide::scheduler
