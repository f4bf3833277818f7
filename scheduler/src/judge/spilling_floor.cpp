#include "ebbtide/scheduler/spilling_floor.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "ebbtide/scheduler/byte_size.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::size_t kMostSizes = 2;  // that are described

// The ops at which the program itself holds the value: from `first` to before `end`.
struct Span {
  OpId first = 0;
  OpId end = 0;
};

std::vector<Span> programsOwn(const Graph& graph) {
  std::vector<Span> spans;
  for (const Value& value : graph.values) {
    const OpId first = value.producer == kNone ? 0 : value.producer;
    const bool counted = !value.pinned && value.last_reference != kNone;
    spans.push_back({first, counted ? std::max(first, value.last_reference + 1) : first});
  }
  // What an op writes in place takes the bytes over.
  for (const Value& value : graph.values) {
    if (value.previous_epoch == kNone) continue;
    Span& taken_over = spans[value.previous_epoch];
    taken_over.end = std::clamp(value.producer, taken_over.first, taken_over.end);
  }
  return spans;
}

// Walks the trace's events once, up to the end of the op.
class FloorReader {
 public:
  FloorReader(const Trace& trace, const TraceGraph& graph, OpId op)
      : trace_(trace), graph_(graph), op_(op), live_(trace.blocks.size(), false) {
    const auto next = static_cast<std::size_t>(op) + 1;
    begin_ = graph.event_of.at(static_cast<std::size_t>(op));
    end_ = next < graph.event_of.size() ? graph.event_of[next] : trace.events.size();
  }

  FloorBlocks read() {
    findMoment();
    FloorBlocks found;
    found.place = placeOf(moment_);
    found.by = nameAt(moment_);
    count(found);
    return found;
  }

 private:
  using Kind = TraceEvent::Kind;
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

  // Of the op's events the first one after which the most bytes of its own are live.
  void findMoment() {
    Bytes live = 0, most = -1;
    moment_ = begin_;
    for (std::size_t i = begin_; i < end_; ++i) {
      const TraceEvent& event = trace_.events[i];
      const int sign = event.kind == Kind::kAlloc ? 1 : event.kind == Kind::kFree ? -1 : 0;
      if (sign != 0) live += sign * trace_.blocks.at(static_cast<std::size_t>(event.id)).bytes;
      if (live > most) {
        most = live;
        moment_ = i;
      }
    }
  }

  FloorBlocks::Place placeOf(std::size_t moment) const {
    using Place = FloorBlocks::Place;
    const std::size_t last = lastOfBackward();
    if (last == kNowhere || moment <= last) return Place::kInStep;
    if (trace_.updated_at == kNone) return Place::kAfterBackward;
    return moment < static_cast<std::size_t>(trace_.updated_at) ? Place::kUpdate
                                                                : Place::kAfterUpdate;
  }

  std::size_t lastOfBackward() const {
    for (std::size_t i = trace_.events.size(); i-- > 0;) {
      const Kind kind = trace_.events[i].kind;
      if (kind == Kind::kBackwardNode || kind == Kind::kUnpack || kind == Kind::kRelease) return i;
    }
    return kNowhere;
  }

  std::string nameAt(std::size_t moment) const {
    const Op& op = graph_.graph.ops[static_cast<std::size_t>(op_)];
    if (!op.backward) return op.name;
    for (std::size_t i = moment + 1; i-- > 0;) {
      const TraceEvent& event = trace_.events[i];
      if (event.kind != Kind::kBackwardNode) continue;
      const auto node = static_cast<std::size_t>(event.id);
      return event.id >= 0 && node < trace_.nodes.size() ? trace_.nodes[node] : "";
    }
    return "";
  }

  // What the op reads and makes, what it has allocated by then, and what earlier ops of the step
  // left that no value names: gradients on their way, which nothing can drop.
  void count(FloorBlocks& found) {
    std::vector<bool> named(live_.size(), false);
    for (const TraceValue& value : trace_.values) {
      if (value.block != kNone) named.at(static_cast<std::size_t>(value.block)) = true;
    }
    for (std::size_t i = 0; i <= moment_ && i < end_; ++i) {
      const TraceEvent& event = trace_.events[i];
      const auto id = static_cast<std::size_t>(event.id);
      if (event.kind == Kind::kAlloc)
        live_.at(id) = i >= begin_ || !(named.at(id) || trace_.blocks.at(id).ours);
      if (event.kind == Kind::kFree) live_.at(id) = false;
    }
    const Op& op = graph_.graph.ops[static_cast<std::size_t>(op_)];
    for (const auto* values : {&op.inputs, &op.outputs}) {
      for (const ValueId v : *values) {
        const auto value = static_cast<std::size_t>(v);
        if (value >= trace_.values.size() || trace_.values[value].parameter) continue;
        if (const BlockId block = trace_.values[value].block; block != kNone)
          live_.at(static_cast<std::size_t>(block)) = true;
      }
    }
    std::map<Bytes, std::int64_t> counts;
    for (std::size_t b = 0; b < live_.size(); ++b) {
      if (live_[b]) ++counts[trace_.blocks[b].bytes];
    }
    for (const auto& [bytes, blocks] : counts) found.sizes.push_back({bytes, blocks});
    std::sort(found.sizes.begin(), found.sizes.end(),
              [](const auto& a, const auto& b) { return a.bytes * a.blocks > b.bytes * b.blocks; });
  }

  const Trace& trace_;
  const TraceGraph& graph_;
  const OpId op_;
  std::size_t begin_ = 0, end_ = 0, moment_ = 0;
  std::vector<bool> live_;  // per block
};

std::string nameOf(const FloorBlocks& blocks) {
  using Place = FloorBlocks::Place;
  switch (blocks.place) {
    case Place::kUpdate:
      return "the optimizer's step, not activations";
    case Place::kAfterUpdate:
      return "what follows the update (an evaluation?)";
    case Place::kAfterBackward:
      return "what follows the backward pass (an update?)";
    case Place::kInStep:
      break;
  }
  return blocks.by.empty() ? "a node of the backward pass" : blocks.by;
}

}  // namespace

SpillingFloor spillingFloor(const Graph& graph) {
  const std::vector<Span> spans = programsOwn(graph);
  std::vector<Bytes> delta(graph.ops.size() + 1, 0);
  for (std::size_t v = 0; v < spans.size(); ++v) {
    delta[spans[v].first] += graph.values[v].bytes;
    delta[spans[v].end] -= graph.values[v].bytes;
  }
  Bytes held = 0;
  SpillingFloor floor;
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
    if (floor.op == kNone || need > floor.bytes) floor = {need, op};
  }
  return floor;
}

FloorBlocks floorBlocks(const Trace& trace, const TraceGraph& graph, const SpillingFloor& floor) {
  if (floor.op == kNone) return {};
  return FloorReader(trace, graph, floor.op).read();
}

std::string describe(const FloorBlocks& blocks) {
  std::string text = nameOf(blocks);
  for (std::size_t i = 0; i < std::min(blocks.sizes.size(), kMostSizes); ++i) {
    const FloorBlocks::Size& size = blocks.sizes[i];
    text += ", " + std::to_string(size.blocks) + (size.blocks == 1 ? " block of " : " blocks of ") +
            formatBytes(size.bytes);
  }
  return text;
}

}  // namespace ebbtide::scheduler
