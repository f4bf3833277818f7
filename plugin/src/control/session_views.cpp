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

const Program* SessionControl::drawnProgram(const Held&) const {
  const Program* const last = session_.programs_.current();
  const RecordedStep largest = session_.taken_.recorded().largest();
  if ((last != nullptr && last->plan != nullptr) || largest.trace == nullptr) return last;
  const auto known = session_.programs_.find(largest.trace->signature);
  return known != session_.programs_.end() ? &known->second : last;
}

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
                 .torch_version = session_.torch_version_,
                 .device = session_.trained_.isElsewhere() ? "cuda" : "cpu",
                 .pid = ::getpid(),
                 .gpu = {},
                 .stages = {}};
  status.stops_on_infeasible = config.on_infeasible == OnInfeasible::kStop;
  allocator::Ledger& ledger = session_.memory().ledger();  // atomics, all that is read of it
  status.totals.executor = session_.counters_.totals();
  status.memory.allocated_bytes = ledger.liveBytes();
  status.memory.mapped_bytes = ledger.mappedBytes();
  status.memory.margin_bytes = ledger.marginBytes();
  status.totals.budget_violations = ledger.overruns();
  status.memory.budget_bytes = session_.budget();
  status.smallest_feasible_budget_bytes = session_.budgets().verdict().told().smallestBytes();
  {
    const auto held = session_.mutex_.hold();
    status.rank.stages = session_.exported().stages(held);
    status.rank.gpu = session_.exported().gpu(held);
    if (status.rank.gpu) status.rank.device += fmt::format(":{}", status.rank.gpu->index);
    status.steps = session_.steps_;
    status.state = session_.closing_                                   ? "ended"
                   : session_.disabled() || session_.keeps_everything_ ? "pass-through"
                   : session_.budgets().ofRank(held).isPaused()        ? "paused"
                   : session_.steps_ > 0                               ? "training"
                                                                       : "starting";
    status.mode = session_.budgets().modeName(held);
    status.first_step_seconds = session_.figures_.firstSeconds();
    status.recent = session_.taken_.recent();
    status.step_time = session_.stepTime(held);
    status.memory.cached_bytes = session_.taken_.memory().cached_bytes;
    status.memory.peak_allocated_bytes = session_.figures_.allocatedPeakBytes();
    status.memory.peak_mapped_bytes = session_.figures_.mappedPeakBytes();
    status.memory.base_bytes = session_.base_bytes_;
    status.totals.audited = sumOf(session_.replay_trust_.equalReplays());
    status.totals.rejected = sumOf(session_.replay_trust_.rejectedReplays());
    if (const Program* known = session_.programs_.current()) {
      status.plan = known->plan;
      status.memory.predicted_peak_bytes = known->predicted_peak_bytes;
    }
    if (status.plan == session_.programs_.active().plan())
      status.active_from_step = session_.programs_.active().fromStep();
  }
  // The step that runs counts, too.
  const auto raise = [](std::int64_t& peak, std::int64_t now) { peak = std::max(peak, now); };
  status.memory.step_peak_bytes = status.recent.newest().peak_bytes;
  raise(status.memory.peak_allocated_bytes,
        std::max(ledger.livePeakBytes(), status.memory.allocated_bytes));
  raise(status.memory.peak_mapped_bytes, ledger.mappedPeakBytes());
  return {.body = statusJson(status)};
}

Response SessionControl::plan() {
  PlanView view;
  view.rank = session_.config().rank;
  bool wakes = false;
  {
    const auto held = session_.mutex_.hold();
    view.mode = session_.budgets().modeName(held);
    view.budget_bytes = session_.budget();
    view.timeline = session_.figures_.timeline();
    if (const Program* known = drawnProgram(held)) {
      view.plan = known->plan;
      view.plain_peak_bytes = known->plain_peak_bytes;
    }
    if (view.plan == session_.programs_.active().plan())
      view.active_from_step = session_.programs_.active().fromStep();
    if (view.plan != nullptr) {
      view.picture = view.plan->picture;
    } else if (const RecordedStep step = session_.taken_.recorded().largest();
               step.trace != nullptr) {
      const bool drawn = plain_picture_of_ == step.trace->signature;
      if (drawn) view.picture = plain_picture_;
      wakes = !drawn && !std::exchange(draw_plain_, true);
    }
  }
  if (wakes) session_.changed_.notify_all();
  return {.body = planJson(view)};
}

// What is live where nothing is dropped; of the planning thread.
void SessionControl::drawPlain() noexcept {
  RecordedStep step;
  {
    const auto held = session_.mutex_.hold();
    step = session_.taken_.recorded().largest();
  }
  std::shared_ptr<const PlanPicture> picture;
  if (step.trace != nullptr) try {
      const scheduler::TraceGraph graph =
          scheduler::buildGraph(*step.trace, {.first_step = step.first_step});
      picture = session_.drawn(*step.trace, graph, scheduler::keepEverything(graph.graph));
    } catch (const std::exception&) {  // it is not drawn
    }
  const auto held = session_.mutex_.hold();
  draw_plain_ = false;
  plain_picture_ = std::move(picture);
  if (step.trace != nullptr) plain_picture_of_ = step.trace->signature;
}

// -----------------------------------------------------------------------------------------------
// the curve

// Of several programs the steps of this one alone are its measure; where it has none yet, the one
// that was recorded.
double SessionControl::plainSeconds(const Held& held, std::uint64_t program,
                                    double recorded_seconds) const {
  const auto medians = session_.taken_.recorded().size() < 2
                           ? session_.stepTime(held)
                           : session_.taken_.recent().medians(RecentSteps::kMost, program);
  return medians ? medians->plain_seconds : recorded_seconds;
}

// One that is computed goes on, whatever is recorded meanwhile, and is shown before another begins:
// else nobody would see a whole one where steps differ.
bool SessionControl::wantsCurve(const Held& held, const RecordedStep& step) {
  const CurveOf now{step.trace->signature, session_.budgets().number(held)};
  const bool same_budget = now.budget_number == curve_of_.budget_number;
  const bool goes_on = same_budget && (curve_wanted_ || !curve_shown_);
  if (session_.closing_ || now == curve_of_ || goes_on) return false;
  curve_of_ = now;
  curve_step_ = step;
  curve_recorded_seconds_ = secondsOf(*step.trace);
  curve_points_.clear();
  curve_problem_.clear();
  curve_shown_ = false;
  return curve_wanted_ = true;
}

Response SessionControl::curve() {
  const Config& config = session_.config();
  json points = json::array(), present;
  std::string state = "none", why;
  std::vector<BudgetCurve::Point> found;
  std::optional<RecentSteps::Medians> step;
  std::optional<std::int64_t> budget;
  double plain_seconds = 0;
  std::int64_t peak = 0;
  bool wakes = false;
  {
    const auto held = session_.mutex_.hold();
    budget = session_.budget();
    step = session_.stepTime(held);
    peak = session_.taken_.recent().newest().peak_bytes;
    const RecordedStep largest = session_.taken_.recorded().largest();
    if (largest.trace == nullptr) {
      why = session_.closing_ ? "the run ends" : "no step has been recorded yet";
    } else {
      wakes = wantsCurve(held, largest);
      found = curve_points_;
      why = curve_problem_;
      curve_shown_ = !curve_wanted_;
      state = curve_wanted_ ? "computing" : found.empty() ? "none" : "ready";
      plain_seconds = plainSeconds(held, curve_of_.program, curve_recorded_seconds_);
    }
  }
  if (wakes) session_.changed_.notify_all();
  for (const BudgetCurve::Point& point : found) {
    points.push_back({{"budget_bytes", point.budget_bytes},
                      {"predicted_peak_bytes", point.predicted_peak_bytes},
                      {"overhead_ratio", point.overhead_ratio},
                      {"step_seconds", plain_seconds * (1 + point.overhead_ratio)}});
  }
  if (step) {
    const double plain = step->plain_seconds;
    present = {{"budget_bytes", metrics::orNull(budget)},
               {"peak_bytes", peak},
               {"step_seconds", step->seconds},
               {"overhead_ratio", plain > 0 ? json(step->seconds / plain - 1) : json()}};
  }
  return {.body = json{{"rank", config.rank},
                       {"state", state},
                       {"why", why},
                       {"points", std::move(points)},
                       {"present", std::move(present)}}
                      .dump() +
                  "\n"};
}

// One of it: plans that a step waits for come first.
void SessionControl::addCurvePoint() {
  RecordedStep step;
  CurveOf of;
  {
    const auto held = session_.mutex_.hold();
    if (!curve_wanted_) return;
    step = curve_step_;
    of = curve_of_;
  }
  try {
    addPointTo(of, step);
  } catch (const std::exception& error) {
    curve_.reset();
    const auto held = session_.mutex_.hold();
    if (curve_of_ != of) return;  // asked for anew meanwhile
    curve_wanted_ = false;
    curve_step_ = {};
    curve_problem_ = std::string("no curve: ") + error.what();
  }
}

void SessionControl::addPointTo(const CurveOf& of, const RecordedStep& step) {
  if (curve_ == nullptr || curve_is_of_ != of) beginCurve(step);
  curve_is_of_ = of;
  curve_->addPoint(curve_search_);
  const auto held = session_.mutex_.hold();
  if (curve_of_ != of) return;
  curve_points_ = curve_->points();
  curve_wanted_ = !curve_->done();
  if (curve_wanted_) return;
  curve_.reset();
  curve_step_ = {};
}

void SessionControl::beginCurve(const RecordedStep& step) {
  auto trace = std::make_shared<const scheduler::Trace>(planningTrace(step));
  const TrainedMemory& memory = session_.trained_;
  const std::int64_t others = memory.unplannedBytes();  // of each budget, as it is now
  std::vector<RecordedStep> recorded;
  {
    const auto held = session_.mutex_.hold();
    recorded = session_.taken_.recorded().all();
  }
  // A smaller one would be refused, whatever this program's plan could do with it.
  std::vector<ProgramChange> programs;
  for (RecordedStep& one : recorded) programs.push_back(needsOf(std::move(one), 0));
  std::int64_t least = smallestBudgetOf(programs), acceptable = 0, plain = 0;
  for (const ProgramChange& program : programs) {
    acceptable = std::max(acceptable, memory.budgetWithRoomFor(program.needed_bytes));
    plain = std::max(plain, memory.budgetWithRoomFor(program.plain_peak_bytes + others));
  }
  if (least > plain) least = acceptable;  // its margin is more than can be dropped
  curve_ = std::make_unique<BudgetCurve>(
      std::move(trace), step.first_step, [&memory, others, least](std::int64_t cap) {
        return std::max(memory.budgetWithRoomFor(cap + others), least);
      });
}

Response SessionControl::config() const {
  std::string unix_path, tcp;
  {
    const auto held = session_.mutex_.hold();
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
