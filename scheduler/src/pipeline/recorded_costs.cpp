#include "ebbtide/scheduler/recorded_costs.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/median.hpp"
#include "ebbtide/scheduler/rank_curves.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;

class Coster {
 public:
  Coster(const Trace& trace, const RankActions& actions)
      : trace_(trace),
        actions_(actions),
        trace_graph_(buildGraph(trace)),
        graph_(trace_graph_.graph) {
    live_bytes_ = simulate(graph_, keepEverything(graph_)).live_bytes;
    last_replay_ = lastReplayPositions(graph_);
    findDeaths();
    findLevels();
    findSpans();
  }

  RecordedCosts costs(Bytes budget_bytes) const {
    RecordedCosts costs;
    std::vector<PartCosts>& parts = costs.parts;
    for (std::int32_t part = 0; part < actions_.parts; ++part) parts.push_back(costsOf(part));
    costs.no_curves = addCurves(budget_bytes, parts);
    addFixedBytes(costs);
    return costs;
  }

 private:
  struct Span {  // graph ops, both ends included; first > last: none
    OpId first = 1, last = 0;

    bool isEmpty() const { return first > last; }
    void add(OpId op) {
      first = isEmpty() ? op : std::min(first, op);
      last = std::max(last, op);
    }
  };
  struct Chunk {
    Span forward, backward, weights;  // backward: the input's part where there are two
    bool in_parts = false;
    Nanoseconds forward_ns = 0;

    const Span& of(Kind kind) const {
      return kind == Kind::kForward ? forward : kind == Kind::kWeightBackward ? weights : backward;
    }
  };
  struct Costs {
    Bytes held = 0, forward = 0, backward = 0, weight_held = 0;
    Bytes least_held = 0, least_forward = 0;
    Nanoseconds recompute_ns = 0;
  };

  // With everything kept: the last op at which the value is there, but for graphs that are kept.
  void findDeaths() {
    for (const Value& value : graph_.values) deaths_.push_back(value.last_reference);
    for (OpId op = 0; op < ops(); ++op) {
      for (const ValueId v : graph_.ops[op].inputs) deaths_[v] = std::max(deaths_[v], op);
      for (const ValueId v : graph_.ops[op].outputs) deaths_[v] = std::max(deaths_[v], op);
    }
  }

  // Before each op and after the last one.
  void findLevels() {
    std::vector<Bytes> change(graph_.ops.size() + 2, 0);
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.pinned || deaths_[v] == kNone) continue;
      change[value.producer + 1] += value.bytes;
      change[std::max(deaths_[v], value.saved_last) + 1] -= value.bytes;
    }
    Bytes live = 0;
    for (OpId op = 0; op <= ops(); ++op) {
      live += change[op];
      // Past the last op: what that one found. A backward event's own memory is gone by then.
      levels_.push_back(live + graph_.ops[std::min(op, ops() - 1)].fixedAtStart());
    }
  }

  OpId ops() const { return static_cast<OpId>(graph_.ops.size()); }

  void findSpans() {
    chunks_.resize(actions_.chunks.size());
    for (const RankAction& action : actions_.actions) {
      Chunk& chunk = chunks_[action.chunk];
      Span& span = action.kind == Kind::kForward          ? chunk.forward
                   : action.kind == Kind::kWeightBackward ? chunk.weights
                                                          : chunk.backward;
      if (action.kind == Kind::kForward) chunk.forward_ns = action.busy_ns;
      chunk.in_parts = chunk.in_parts || action.kind == Kind::kWeightBackward;
      for (std::size_t at = action.first_event; at < action.end_event; ++at) {
        const TraceEvent& event = trace_.events[at];
        if (event.kind == TraceEvent::Kind::kOpBegin) {
          span.add(trace_graph_.op_of_trace_op[event.id]);
        } else if (event.kind == TraceEvent::Kind::kUnpack && action.kind != Kind::kForward) {
          addEvent(chunk, action.kind, event.id);
        }
      }
    }
  }

  // A use that is read twice has an op for the input's part, then one for the weights'.
  void addEvent(Chunk& chunk, Kind kind, UseId use) {
    const std::vector<OpId>& events = trace_graph_.events_of_use[use];
    if (events.empty()) return;
    if (kind == Kind::kWeightBackward)
      chunk.weights.add(events.back());
    else
      chunk.backward.add(events.front());
  }

  // What is live besides microbatches during each action, with everything kept. Gradients come as
  // the step goes on and stay: never less than during those before.
  std::vector<Bytes> besides(const std::vector<PartCosts>& parts, Bytes& most_bytes) const {
    std::vector<Bytes> besides;
    Bytes live = 0;
    most_bytes = 0;
    for (const RankAction& action : actions_.actions) {
      const PartCosts& costs = parts[actions_.chunks[action.chunk].part];
      const StagePoint& kept = costs.points.front();
      Bytes now = live;
      switch (action.kind) {
        case Kind::kForward:
          now += kept.forward_bytes;
          live += kept.held_bytes;
          break;
        case Kind::kBackward:
        case Kind::kInputBackward:
          live -= kept.held_bytes;
          now = live + kept.backward_bytes;
          if (action.kind == Kind::kInputBackward) live += costs.weight_held_bytes;
          break;
        case Kind::kWeightBackward:
          live -= costs.weight_held_bytes;
          break;
      }
      const Span& span = chunks_[action.chunk].of(action.kind);
      const Bytes before = besides.empty() ? 0 : besides.back();
      besides.push_back(span.isEmpty() ? before : std::max(before, most(span) - now));
      most_bytes = std::max(most_bytes, now + besides.back());
    }
    return besides;
  }

  // What is there from the first action on is fixed, and so is what the step holds before or after
  // its actions, if that is more than during them.
  void addFixedBytes(RecordedCosts& costs) const {
    Bytes most_bytes = 0;
    costs.besides_bytes = besides(costs.parts, most_bytes);
    const Bytes first = costs.besides_bytes.empty() ? 0 : costs.besides_bytes.front();
    for (Bytes& bytes : costs.besides_bytes) bytes -= first;
    const Bytes peak = *std::max_element(live_bytes_.begin(), live_bytes_.end());
    const Bytes fixed = first + std::max<Bytes>(0, peak - most_bytes);
    for (std::int32_t part = 0; part < actions_.parts; ++part) {
      costs.parts[part].fixed_bytes =
          fixed / actions_.parts + (part < fixed % actions_.parts ? 1 : 0);
    }
  }

  // Between and beyond the two points of each part those that a rank finds in training, by what
  // they differ from everything kept. None where microbatches are not alike: says why.
  std::string addCurves(Bytes budget_bytes, std::vector<PartCosts>& parts) const try {
    TraceGraph step = trace_graph_;
    addValueCopies(trace_, step);
    RankCurves curves(step, actions_);
    const Bytes peak = *std::max_element(live_bytes_.begin(), live_bytes_.end());
    curves.trace(std::min(budget_bytes, peak), {.planner = "greedy"});
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const StagePoint& from = curves.curve(part).front().point;
      std::vector<StagePoint>& points = parts[part].points;
      const StagePoint kept = points.front();
      points = asMeasured(curves.curve(part), static_cast<std::int32_t>(part));
      for (StagePoint& point : points) {
        const auto moved = [&](Bytes StagePoint::*bytes) {
          return std::max<Bytes>(0, kept.*bytes + point.*bytes - from.*bytes);
        };
        point.forward_bytes = moved(&StagePoint::forward_bytes);
        point.backward_bytes = moved(&StagePoint::backward_bytes);
        point.held_bytes = moved(&StagePoint::held_bytes);
        point.forward_bytes = std::max(point.forward_bytes, point.held_bytes);
        point.backward_bytes = std::max(point.backward_bytes, point.held_bytes);
      }
    }
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }

  // Replay times as processor time. The ratio to the ops' recorded times is that of the forward
  // passes.
  std::vector<StagePoint> asMeasured(const std::vector<MicrobatchPoint>& curve,
                                     std::int32_t part) const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (actions_.chunks[i].part != part) continue;
      Nanoseconds all = 0;
      for (OpId op = chunks_[i].forward.first; op <= chunks_[i].forward.last; ++op)
        all += graph_.ops[op].duration_ns;
      if (all > 0)
        ratios.push_back(static_cast<double>(chunks_[i].forward_ns) / static_cast<double>(all));
    }
    const double ratio = lowerMedian(std::move(ratios));
    std::vector<StagePoint> points;
    for (const MicrobatchPoint& each : curve) {
      StagePoint point = each.point;
      point.recompute_ns =
          static_cast<Nanoseconds>(static_cast<double>(point.recompute_ns) * ratio);
      if (!points.empty() && point.recompute_ns <= points.back().recompute_ns) {
        if (points.size() == 1) continue;
        points.pop_back();  // no more time, and less is held
      }
      points.push_back(point);
    }
    return points;
  }

  PartCosts costsOf(std::int32_t part) const {
    std::vector<Costs> all;
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      if (actions_.chunks[i].part == part && !chunks_[i].forward.isEmpty()) {
        all.push_back(costsOf(chunks_[i]));
      }
    }
    const auto of = [&](auto Costs::*field) {
      std::vector<std::remove_cvref_t<decltype(Costs().*field)>> values;
      for (const Costs& one : all) values.push_back(one.*field);
      return lowerMedian(std::move(values));
    };
    const Bytes held = of(&Costs::held), forward = of(&Costs::forward);
    const Bytes backward = std::max(held, of(&Costs::backward));
    PartCosts costs;
    costs.weight_held_bytes = of(&Costs::weight_held);
    costs.points.push_back({held, std::max(held, forward), backward, 0});
    const Bytes least = of(&Costs::least_held);
    const Nanoseconds recompute = of(&Costs::recompute_ns);
    if (least < held && recompute > 0) {
      costs.points.push_back({least, std::max(least, of(&Costs::least_forward)),
                              std::max(backward, forward), recompute});
    }
    return costs;
  }

  Costs costsOf(const Chunk& chunk) const {
    Costs costs;
    const Span& backward = chunk.backward.isEmpty() ? chunk.weights : chunk.backward;
    if (backward.isEmpty()) return costs;
    const OpId end = std::max(backward.last, chunk.weights.last);
    const std::vector<bool> dropped = droppedValues(chunk, backward.first);
    const Bytes growth =
        std::max<Bytes>(0, graph_.ops[std::min(chunk.forward.last + 1, ops() - 1)].fixedAtStart() -
                               graph_.ops[chunk.forward.first].fixedAtStart());
    costs.held = costs.least_held = growth;
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (!isMadeBy(value, chunk) || deaths_[v] > end) continue;
      if (deaths_[v] >= backward.first) {
        costs.held += value.bytes;
        if (!dropped[v] || value.last_reference >= backward.first) costs.least_held += value.bytes;
      }
    }
    costs.forward = most(chunk.forward) - levels_[chunk.forward.first];
    costs.backward = most(backward) - levels_[backward.first] + costs.held;
    if (chunk.in_parts) costs.weight_held = weightHeld(chunk, costs.held);
    costs.least_forward = leastForward(chunk, dropped);
    costs.recompute_ns = recomputeTime(chunk, dropped, backward);
    return costs;
  }

  // From the input's part on, with what that leaves for the weights' and what these take.
  Bytes weightHeld(const Chunk& chunk, Bytes held) const {
    if (chunk.backward.isEmpty()) return held;  // the weights' part does it all
    const Bytes before = levels_[chunk.backward.first] - held;
    return std::max<Bytes>(0, levels_[chunk.backward.last + 1] - before);
  }

  static bool isMadeBy(const Value& value, const Chunk& chunk) {
    return !value.pinned && value.producer >= chunk.forward.first &&
           value.producer <= chunk.forward.last;
  }

  Bytes most(const Span& span) const {
    return *std::max_element(live_bytes_.begin() + span.first, live_bytes_.begin() + span.last + 1);
  }

  // What the chunk made that can be made again right before its backward.
  std::vector<bool> droppedValues(const Chunk& chunk, OpId backward) const {
    std::vector<bool> dropped(graph_.values.size(), false);
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      dropped[v] = isMadeBy(graph_.values[v], chunk) && last_replay_[v] >= backward;
    }
    return dropped;
  }

  Bytes leastForward(const Chunk& chunk, const std::vector<bool>& dropped) const {
    const OpId first = chunk.forward.first;
    Bytes saved = 0, most_bytes = 0;
    std::vector<Bytes> gone(chunk.forward.last - first + 2,
                            0);  // by op: what is away from there on
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      if (!dropped[v]) continue;
      const Value& value = graph_.values[v];
      const OpId away = std::max(value.producer, value.last_reference) + 1;
      if (away <= chunk.forward.last && deaths_[v] >= away) gone[away - first] += value.bytes;
    }
    for (OpId op = first; op <= chunk.forward.last; ++op) {
      saved += gone[op - first];
      most_bytes = std::max(most_bytes, live_bytes_[op] - levels_[first] - saved);
    }
    return most_bytes;
  }

  // Of the forward's processor time the share of the ops that run again.
  Nanoseconds recomputeTime(const Chunk& chunk, const std::vector<bool>& dropped,
                            const Span& backward) const {
    std::vector<bool> runs(graph_.ops.size(), false);
    std::vector<ValueId> open;
    for (const Span& span : {backward, chunk.weights}) {
      for (OpId op = span.first; op <= span.last; ++op) {
        open.insert(open.end(), graph_.ops[op].inputs.begin(), graph_.ops[op].inputs.end());
      }
    }
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (!dropped[v] || graph_.values[v].last_reference >= backward.first) continue;
      const OpId op = graph_.values[v].producer;
      if (runs[op]) continue;
      runs[op] = true;
      open.insert(open.end(), graph_.ops[op].inputs.begin(), graph_.ops[op].inputs.end());
    }
    double all = 0, again = 0;
    for (OpId op = chunk.forward.first; op <= chunk.forward.last; ++op) {
      const auto ns = static_cast<double>(graph_.ops[op].duration_ns);
      all += ns;
      if (runs[op]) again += ns;
    }
    return all > 0 ? static_cast<Nanoseconds>(static_cast<double>(chunk.forward_ns) * again / all)
                   : 0;
  }

  const Trace& trace_;
  const RankActions& actions_;
  const TraceGraph trace_graph_;
  const Graph& graph_;
  std::vector<Bytes> live_bytes_;           // during each op, with everything kept
  std::vector<OpId> last_replay_, deaths_;  // of each value
  std::vector<Bytes> levels_;               // before each op, with everything kept
  std::vector<Chunk> chunks_;
};

}  // namespace

RecordedCosts costsOfParts(const Trace& trace, const RankActions& actions, Bytes budget_bytes) {
  return Coster(trace, actions).costs(budget_bytes);
}

}  // namespace ebbtide::scheduler
