#include "search/retention_cut.hpp"

#include <algorithm>
#include <cmath>

#include "base/min_cut.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr double kUnitsPerNanosecond = 16;  // of capacity
constexpr double kPriceSlope = 0.05;        // from the first op to the last

std::int64_t keepCapacity(const Graph& graph, ValueId id, double price,
                          const std::vector<bool>& free) {
  const Value& value = graph.values[id];
  if (value.overwritten_by != kNone) return MinCut::kInfinite;
  if (free[id]) return 0;
  const double position =
      static_cast<double>(value.producer) / static_cast<double>(graph.ops.size());
  const double cost = static_cast<double>(value.bytes) * price * (1 - kPriceSlope * position);
  return static_cast<std::int64_t>(std::min(cost * kUnitsPerNanosecond, 1e17)) + 1;
}

}  // namespace

Retention retentionAtPrice(const Graph& graph, const ScheduleBuilder& builder, double price,
                           const std::vector<bool>& free) {
  const std::size_t ops = graph.ops.size();
  const std::size_t source = ops + graph.values.size();
  const std::size_t sink = source + 1;
  MinCut cut(sink + 1);
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const ValueId value = static_cast<ValueId>(id);
    if (!builder.droppable(value)) continue;
    const std::size_t producer = static_cast<std::size_t>(graph.values[id].producer);
    if (builder.readByEvents(value)) cut.addEdge(source, ops + id, MinCut::kInfinite);
    cut.addEdge(ops + id, producer, keepCapacity(graph, value, price, free));
  }
  for (std::size_t id = 0; id < ops; ++id) {
    if (!graph.ops[id].rerunnable) continue;
    const double cost = static_cast<double>(graph.ops[id].duration_ns) * kUnitsPerNanosecond;
    cut.addEdge(id, sink, static_cast<std::int64_t>(std::min(cost, 1e17)));
    for (ValueId input : graph.ops[id].inputs) {
      if (builder.droppable(input)) {
        cut.addEdge(id, ops + static_cast<std::size_t>(input), MinCut::kInfinite);
      }
    }
  }
  const std::vector<bool> ones = cut.sourceSide(source, sink);
  Retention retention;
  retention.memo.assign(graph.values.size(), true);
  retention.keep.assign(graph.values.size(), false);
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    if (!builder.droppable(static_cast<ValueId>(id))) continue;
    retention.keep[id] =
        ones[ops + id] && !ones[static_cast<std::size_t>(graph.values[id].producer)];
  }
  return retention;
}

}  // namespace ebbtide::scheduler
