#include "plan/plan_picture.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "ebbtide/scheduler/rank_actions.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;
using scheduler::PipelineAction;

constexpr std::size_t kMostRecomputed = 20;
constexpr std::size_t kMostSlices = 4096;
constexpr double kSecond = 1e-9;  // of a nanosecond

bool givesBackACopy(const scheduler::TraceGraph& step, std::size_t op) {
  return op < step.restores.size() && step.restores[op].value != kNone;
}

// Without what comes back from a copy.
std::vector<PlanPicture::Recomputed> recomputedOps(const scheduler::TraceGraph& traced,
                                                   const scheduler::Schedule& schedule) {
  const scheduler::Graph& graph = traced.graph;
  std::map<std::string, PlanPicture::Recomputed> by_name;
  std::vector<bool> ran(graph.ops.size(), false);
  for (const scheduler::Step& step : schedule.steps) {
    if (step.kind != scheduler::Step::Kind::kRun) continue;
    const auto id = static_cast<std::size_t>(step.id);
    if (!ran[id]) {
      ran[id] = true;
      continue;
    }
    if (givesBackACopy(traced, id)) continue;
    const scheduler::Op& op = graph.ops[id];
    PlanPicture::Recomputed& row = by_name[op.name];
    row.op = op.name;
    ++row.ops;
    row.seconds += static_cast<double>(op.duration_ns) * kSecond;
    for (const scheduler::ValueId value : op.outputs) row.freed_bytes += graph.values[value].bytes;
  }
  std::vector<PlanPicture::Recomputed> rows;
  for (auto& [name, row] : by_name) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  if (rows.size() > kMostRecomputed) rows.resize(kMostRecomputed);
  return rows;
}

// How long ops run again, by the event of the trace that comes next in the program.
class ReplayTimes {
 public:
  ReplayTimes(const scheduler::TraceGraph& step, const scheduler::Schedule& schedule) {
    std::vector<bool> ran(step.graph.ops.size(), false);
    scheduler::Nanoseconds due = 0;
    for (const scheduler::Step& one : schedule.steps) {
      if (one.kind != scheduler::Step::Kind::kRun) continue;
      const auto op = static_cast<std::size_t>(one.id);
      if (!ran[op]) {
        ran[op] = true;
        if (due > 0) by_event_[step.event_of[op]] += std::exchange(due, 0);
      } else if (!givesBackACopy(step, op)) {
        due += step.graph.ops[op].duration_ns;
      }
    }
  }

  // Of the events before this one that no earlier call was about.
  double secondsUntil(std::size_t event) {
    scheduler::Nanoseconds sum = 0;
    for (auto at = by_event_.begin(); at != by_event_.end() && at->first < event;) {
      sum += at->second;
      at = by_event_.erase(at);
    }
    return static_cast<double>(sum) * kSecond;
  }

 private:
  std::map<std::size_t, scheduler::Nanoseconds> by_event_;
};

// What lies between two actions of a rank is mostly waiting for a message, which is there when it
// was in the recorded step: replays before the wait is over take from it, and what they take
// besides makes all that comes later late.
//
//   recorded   F │  wait   │ B          │ wait │ F
//   planned    F │ R │wait │ R │ B          │ R  │ F
std::vector<PlanPicture::Slice> slicesOf(const scheduler::Trace& trace,
                                         const scheduler::TraceGraph& step,
                                         const scheduler::Schedule& schedule) {
  if (trace.messages.empty()) return {};
  const scheduler::RankActions found = scheduler::recogniseActions(trace);
  if (!found.refusal.empty()) return {};
  ReplayTimes replays(step, schedule);
  std::vector<PlanPicture::Slice> slices;
  double before = 0, now = 0;  // the end of the action before: as recorded, and as planned
  for (const scheduler::RankAction& action : found.actions) {
    if (slices.size() + 4 > kMostSlices || action.end_event == 0) break;
    const double begin = static_cast<double>(trace.events[action.first_event].at_ns) * kSecond;
    const double end = static_cast<double>(trace.events[action.end_event - 1].at_ns) * kSecond;
    const scheduler::RankChunk& chunk = found.chunks[static_cast<std::size_t>(action.chunk)];
    const auto add = [&](const char* kind, double seconds) {
      if (seconds <= 0) return;
      const bool is_wait = std::string_view(kind) == "wait";
      slices.push_back({.kind = kind,
                        .microbatch = is_wait ? kNone : chunk.microbatch,
                        .stage = is_wait ? kNone : chunk.stage,
                        .start_seconds = now,
                        .seconds = seconds});
      now += seconds;
    };
    const double waits_until = begin > before ? begin : now;
    add("recompute", replays.secondsUntil(action.first_event));
    add("wait", waits_until - now);
    add("recompute", replays.secondsUntil(action.end_event));
    add(action.kind == PipelineAction::Kind::kForward ? "forward" : "backward", end - begin);
    before = std::max(before, end);
  }
  return slices;
}

}  // namespace

PlanPicture drawPlan(const scheduler::Trace& trace, const scheduler::TraceGraph& step,
                     const scheduler::Schedule& schedule) {
  return {.areas = scheduler::memoryAreas(step, schedule),
          .recomputed = recomputedOps(step, schedule),
          .slices = slicesOf(trace, step, schedule)};
}

}  // namespace ebbtide::plugin
