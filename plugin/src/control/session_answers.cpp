// What a rank answers to those who look on: copies are made with the session's guard held, and
// written out without it. No lock of the allocator is taken.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "control/session_control.hpp"
#include "ebbtide/metrics/or_null.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "job/rank_report.hpp"
#include "runtime/session.hpp"
#include "version.hpp"

namespace ebbtide::plugin {
namespace {

using metrics::Response;
using nlohmann::json;

std::int64_t sumOf(const ReplayTrust::Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& one) { return sum + one.second; });
}

}  // namespace

Response SessionControl::status() {
  const Config& config = session_.config();
  RankStatus status;
  status.rank = {.rank = config.rank,
                 .local_rank = config.local_rank,
                 .world_size = config.world_size,
                 .local_world_size = config.local_world_size,
                 .job_id = config.job_id,
                 .host = host_,
                 .version = kVersion,
                 .torch_version = session_.torchVersion(),
                 .device = session_.trained().isElsewhere() ? "cuda" : "cpu",
                 .pid = ::getpid(),
                 .gpu = {},
                 .stages = {}};
  status.stops_on_infeasible = config.planning.on_infeasible == OnInfeasible::kStop;
  // atomics, all that is read of it
  allocator::BudgetTracker& tracker = session_.trained().memory().budgetTracker();
  status.totals.executor = session_.outputs().counters.totals();
  status.memory.allocated_bytes = tracker.liveBytes();
  status.memory.mapped_bytes = tracker.mappedBytes();
  status.memory.margin_bytes = tracker.marginBytes();
  status.totals.budget_violations = tracker.overruns();
  status.memory.budget_bytes = session_.trained().budgetBytes();
  status.smallest_feasible_budget_bytes = session_.budgets().verdict().told().smallestBytes();
  const RunView run = viewNow();
  status.rank.stages = run.rank.stages;
  status.rank.gpu = run.rank.gpu;
  if (run.rank.gpu) status.rank.device += fmt::format(":{}", run.rank.gpu->index);
  status.steps = run.steps.count;
  status.state = run.process.ended                                            ? "ended"
                 : run.process.passes_through || run.process.keeps_everything ? "pass-through"
                 : run.budget.is_paused                                       ? "paused"
                 : run.steps.count > 0                                        ? "training"
                                                                              : "starting";
  status.mode = run.budget.mode;
  status.first_step_seconds = run.steps.first_seconds;
  status.recent = run.steps.recent;
  status.step_time = run.steps.time;
  status.memory.cached_bytes = run.memory.cached_bytes;
  status.memory.peak_allocated_bytes = run.memory.peak_allocated_bytes;
  status.memory.peak_mapped_bytes = run.memory.peak_mapped_bytes;
  status.memory.base_bytes = run.memory.base_bytes;
  status.memory.predicted_peak_bytes = run.memory.predicted_peak_bytes;
  status.totals.audited = sumOf(session_.replayTrust().equalReplays());
  status.totals.rejected = sumOf(session_.replayTrust().rejectedReplays());
  status.plan = run.shown.plan;
  status.active_from_step = run.shown.active_from_step;
  // The step that runs counts, too.
  const auto raise = [](std::int64_t& peak, std::int64_t now) { peak = std::max(peak, now); };
  status.memory.step_peak_bytes = status.recent.newest().peak_bytes;
  raise(status.memory.peak_allocated_bytes,
        std::max(tracker.livePeakBytes(), status.memory.allocated_bytes));
  raise(status.memory.peak_mapped_bytes, tracker.mappedPeakBytes());
  return {.body = statusJson(status)};
}

Response SessionControl::plan() {
  PlanView view;
  view.rank = session_.config().rank;
  bool wakes = false;
  {
    const auto held = session_.guard().hold();
    const RunView run = session_.view(held);
    view.mode = run.budget.mode;
    view.budget_bytes = run.budget.bytes;
    view.timeline = run.memory.timeline;
    view.plan = run.shown.plan;
    view.plain_peak_bytes = run.shown.plain_peak_bytes;
    view.active_from_step = run.shown.active_from_step;
    if (view.plan != nullptr) {
      view.picture = view.plan->picture;
    } else if (run.steps.largest.trace != nullptr) {
      const bool drawn = plain_picture_of_ == run.steps.largest.trace->signature;
      if (drawn) view.picture = plain_picture_;
      wakes = !drawn && !std::exchange(draw_plain_, true);
    }
  }
  if (wakes) session_.planning().wake();
  return {.body = planJson(view)};
}

// What is live where nothing is dropped; of the planning thread.
void SessionControl::drawPlain() noexcept {
  RecordedStep step;
  std::shared_ptr<const PlanPicture> picture;
  try {
    step = viewNow().steps.largest;
    if (step.trace != nullptr) {
      const scheduler::TraceGraph graph =
          scheduler::buildGraph(*step.trace, {.first_step = step.first_step});
      picture = session_.plans().drawn(*step.trace, graph, scheduler::keepEverything(graph.graph));
    }
  } catch (const std::exception&) {  // it is not drawn
  }
  const auto held = session_.guard().hold();
  draw_plain_ = false;
  plain_picture_ = std::move(picture);
  if (step.trace != nullptr) plain_picture_of_ = step.trace->signature;
}

Response SessionControl::curve() {
  const Config& config = session_.config();
  json points = json::array(), present;
  AskedCurve::Shown shown;
  std::optional<RecentSteps::Medians> step;
  std::optional<std::int64_t> budget;
  std::int64_t peak = 0;
  {
    const auto held = session_.guard().hold();
    const RunView run = session_.view(held);
    budget = run.budget.bytes;
    step = run.steps.time;
    peak = run.steps.recent.newest().peak_bytes;
    if (run.steps.largest.trace == nullptr) {
      shown.why = run.process.ended ? "the run ends" : "no step has been recorded yet";
    } else if (!session_.budgets().verdict().told().baseSettled()) {
      shown.why = notMeasuredText();  // nor where it begins
    } else {
      shown = curve_.show(held, run);
    }
  }
  if (shown.wakes) session_.planning().wake();
  for (const BudgetCurve::Point& point : shown.points) {
    points.push_back({{"budget_bytes", point.budget_bytes},
                      {"predicted_peak_bytes", point.predicted_peak_bytes},
                      {"overhead_ratio", point.overhead_ratio},
                      {"step_seconds", shown.plain_seconds * (1 + point.overhead_ratio)}});
  }
  if (step) {
    const double plain = step->plain_seconds;
    present = {{"budget_bytes", metrics::orNull(budget)},
               {"peak_bytes", peak},
               {"step_seconds", step->seconds},
               {"overhead_ratio", plain > 0 ? json(step->seconds / plain - 1) : json()}};
  }
  return {.body = json{{"rank", config.rank},
                       {"state", shown.state},
                       {"why", shown.why},
                       {"points", std::move(points)},
                       {"present", std::move(present)}}
                      .dump() +
                  "\n"};
}

Response SessionControl::config() const {
  std::string unix_path, tcp;
  {
    const auto held = session_.guard().hold();
    unix_path = unix_path_;
    tcp = tcp_address_;
  }
  return {.body = json{{"rank", session_.config().rank},
                       {"variables", json::parse(variables_)},
                       {"sockets",
                        {{"unix", metrics::orNull(unix_path)}, {"tcp", metrics::orNull(tcp)}}}}
                      .dump(-1, ' ', false, json::error_handler_t::replace) +
                  "\n"};
}

}  // namespace ebbtide::plugin
