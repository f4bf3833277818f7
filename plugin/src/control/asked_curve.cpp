#include "control/asked_curve.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

constexpr int kPointPercent = 20;  // of the time that a plan's search may take

}  // namespace

AskedCurve::AskedCurve(Session& session, const ProgramNeeds& needs)
    : session_(session),
      needs_(needs),
      search_({.planner = session.config().planning.planner,
               .replay_ahead = false,
               .planning_time = session.config().planning.time * kPointPercent / 100,
               .work = session.config().planning.work,
               .cancelled = &session.life().ends},
              [](const std::string&) {}) {}

// One that is computed goes on, whatever is recorded meanwhile, and is shown before another begins:
// else nobody would see a whole one where steps differ.
bool AskedCurve::begins(const Held&, const RunView& run) {
  const Of now{run.steps.largest.trace->signature, run.budget.number};
  const bool same_budget = now.budget_number == of_.budget_number;
  const bool goes_on = same_budget && (wanted_ || !shown_);
  if (run.process.ended || now == of_ || goes_on) return false;
  of_ = now;
  step_ = run.steps.largest;
  recorded_seconds_ = static_cast<double>(run.steps.largest.trace->duration_ns) * 1e-9;
  points_.clear();
  problem_.clear();
  shown_ = false;
  return wanted_ = true;
}

AskedCurve::Shown AskedCurve::show(const Held& held, const RunView& run) {
  Shown shown;
  shown.wakes = begins(held, run);
  shown.points = points_;
  shown.why = problem_;
  shown_ = !wanted_;
  shown.state = wanted_ ? "computing" : points_.empty() ? "none" : "ready";
  shown.plain_seconds = run.plainSeconds(of_.program, recorded_seconds_);
  return shown;
}

void AskedCurve::forget(const Held&) {
  of_ = {};
  wanted_ = false;
}

// One of it: plans that a step waits for come first.
void AskedCurve::addPoint() {
  RecordedStep step;
  Of of;
  {
    const auto held = session_.guard().hold();
    if (!wanted_) return;
    step = step_;
    of = of_;
  }
  try {
    addPointTo(of, step);
  } catch (const std::exception& error) {
    curve_.reset();
    const auto held = session_.guard().hold();
    if (of_ != of) return;  // asked for anew meanwhile
    wanted_ = false;
    step_ = {};
    problem_ = std::string("no curve: ") + error.what();
  }
}

void AskedCurve::addPointTo(const Of& of, const RecordedStep& step) {
  if (curve_ == nullptr || curve_is_of_ != of) begin(step);
  curve_is_of_ = of;
  curve_->addPoint(search_);
  const auto held = session_.guard().hold();
  if (of_ != of) return;
  points_ = curve_->points();
  wanted_ = !curve_->done();
  if (wanted_) return;
  curve_.reset();
  step_ = {};
}

void AskedCurve::begin(const RecordedStep& step) {
  auto trace = std::make_shared<const scheduler::Trace>(needs_.planningTrace(step));
  const TrainedMemory& memory = session_.trained();
  const std::int64_t others = memory.unplannedBytes();  // of each budget, as it is now
  // A smaller one would be refused, whatever this program's plan could do with it.
  std::vector<ProgramChange> programs;
  RunView run = session_.view(session_.guard().hold());
  for (RecordedStep& one : run.steps.recorded) programs.push_back(needs_.of(std::move(one), 0));
  std::int64_t least = needs_.smallestBudgetOf(programs), acceptable = 0, plain = 0;
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

}  // namespace ebbtide::plugin
