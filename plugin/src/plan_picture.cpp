#include "plan_picture.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "ebbtide/scheduler/rank_actions.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;
using scheduler::PipelineAction;

constexpr std::size_t kMostRecomputed = 20;
constexpr std::size_t kMostSlices = 4096;
constexpr double kSecond = 1e-9;  // of a nanosecond

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
    if (id < traced.restores.size() && traced.restores[id].value != kNone) continue;
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

// What lies between two actions of a rank is mostly waiting for a message.
std::vector<PlanPicture::Slice> slicesOf(const scheduler::Trace& trace) {
  if (trace.messages.empty()) return {};
  const scheduler::RankActions found = scheduler::recogniseActions(trace);
  if (!found.refusal.empty()) return {};
  std::vector<PlanPicture::Slice> slices;
  double before = 0;
  for (const scheduler::RankAction& action : found.actions) {
    if (slices.size() + 2 > kMostSlices || action.end_event == 0) break;
    const double begin = static_cast<double>(trace.events[action.first_event].at_ns) * kSecond;
    const double end = static_cast<double>(trace.events[action.end_event - 1].at_ns) * kSecond;
    if (begin > before)
      slices.push_back({.kind = "wait", .start_seconds = before, .seconds = begin - before});
    const scheduler::RankChunk& chunk = found.chunks[static_cast<std::size_t>(action.chunk)];
    const bool forward = action.kind == PipelineAction::Kind::kForward;
    slices.push_back({.kind = forward ? "forward" : "backward",
                      .microbatch = chunk.microbatch,
                      .stage = chunk.stage,
                      .start_seconds = begin,
                      .seconds = std::max(0.0, end - begin)});
    before = std::max(before, end);
  }
  return slices;
}

}  // namespace

PlanPicture drawPlan(const scheduler::Trace& trace, const scheduler::TraceGraph& step,
                     const scheduler::Schedule& schedule) {
  return {.areas = scheduler::memoryAreas(step, schedule),
          .recomputed = recomputedOps(step, schedule),
          .slices = slicesOf(trace)};
}

}  // namespace ebbtide::plugin
