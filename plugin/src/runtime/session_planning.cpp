// The planning thread of a Session: from a recorded trace to a published plan, and what is said
// about it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/no_budget.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/spilling_floor.hpp"
#include "plan/plan_picture.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Bytes;
using scheduler::kNone;

constexpr int kSaidPlans = 3;  // under one budget: of more programs' plans debug lines tell

std::string copiesText(const Plan& plan) {
  std::string text;
  if (plan.decodes > 0) text += fmt::format(", {} masks compressed", plan.decodes);
  if (plan.host_fetches > 0)
    text += fmt::format(", {} on the host ({})", plan.host_fetches, formatBytes(plan.host_bytes));
  return text;
}

}  // namespace

// Of a step that has been recorded: what the report says of its activations, and what it tells of
// the budget.
void Session::analyse(const scheduler::Trace& trace, bool first_step, bool alone,
                      int budget_number) try {
  const scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = first_step});
  auto shares = scheduler::activationShares(trace, graph);
  {
    const Held held = mutex_.hold();
    const auto program = programs_.find(trace.signature);
    if (program != programs_.end()) program->second.shares = std::move(shares);
  }
  budget_.verdict().noteFloor(
      trace, scheduler::buildGraph(trace, {.first_step = first_step, .unread_may_go = true}), alone,
      budget_number);
} catch (const std::exception& error) {
  warn(std::string("a step could not be analysed: ") + error.what());
}

void Session::requestPlan(RecordedStep step) {
  {
    const Held held = mutex_.hold();
    taken_.record(step);
    if (!wantsPlan(held, *step.trace)) return;
    to_plan_ = std::make_unique<ToPlan>(ToPlan{std::move(step.trace), step.first_step});
    planning_ = true;
  }
  changed_.notify_all();
}

void Session::planLoop() {
  job_.begin(here());
  for (;;) {
    std::unique_ptr<ToPlan> to_plan;
    bool to_place = false, asked = false;
    int budget_number = 0;
    {
      Held held = mutex_.hold();
      const auto due = std::min(
          {job_.nextPoll(), metrics_.nextFile(), files_.nextReport(), nextPlaceLook(held)});
      held.waitUntil(changed_, due, [&] {
        return closing_ || to_plan_ != nullptr || hasStepToPlace() || control_->hasWork(held) ||
               nextPlaceLook(held) < due || due <= std::chrono::steady_clock::now();
      });
      if (closing_) return;
      to_plan = std::move(to_plan_);
      budget_number = budget_.number(held);
      to_place = hasStepToPlace();
      asked = control_->hasWork(held);
    }
    try {
      if (shows_) discovery_.seek(std::chrono::steady_clock::now());
      if (metrics_.nextFile() <= std::chrono::steady_clock::now()) metrics_.writeFile(ends_);
      if (files_.nextReport() <= std::chrono::steady_clock::now()) rewriteReport();
    } catch (const std::exception& error) {
      warn(std::string("this run is not shown everywhere: ") + error.what());
      discovery_.giveUp(mutex_.hold());
    }
    if (to_plan == nullptr) {
      if (to_place) placeStep();
      if (asked) control_->work();
      pollJob();
      continue;
    }
    try {
      planOnce(*to_plan->trace, to_plan->first_step, budget_number);
    } catch (const std::exception& error) {
      warn(std::string("no plan could be made, values are spilled instead: ") + error.what());
    }
    const Held held = mutex_.hold();
    planning_ = to_plan_ != nullptr;
    if (budget_number != budget_.number(held)) to_record_.atLeast(2);
  }
}

// Without addresses the allocator chooses some: no step depends on them.
void Session::placeStep() {
  try {
    debug(trained_.placement()->place(&ends_));
  } catch (const std::exception& error) {
    debug(std::string("a step could not be placed: ") + error.what());
  }
}

void Session::planOnce(scheduler::Trace trace, bool first_step, int budget_number) {
  const auto start = std::chrono::steady_clock::now();
  replay_trust_.keepRejected(trace);
  scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = first_step});
  const std::optional<Bytes> budget = this->budget();
  if (!budget) {
    outlook_.foresee(trace, graph);
    if (trace.group_size <= 1) return;
    scheduler::Schedule everything = scheduler::keepEverything(graph.graph);
    tellJob(trace, {std::move(graph), std::move(everything), {}}, jobLimits(kNoBudgetBytes, budget),
            budget_number);
    return;
  }
  const auto plain = scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph));
  auto shares = scheduler::activationShares(trace, graph);
  const Bytes cap = trained_.planningCapBytes();
  const RankPlanning::Limits limits = jobLimits(cap, budget);
  {
    const Held held = mutex_.hold();
    const auto program = programs_.find(trace.signature);
    if (program == programs_.end()) return;             // forgotten meanwhile
    if (budget_number != budget_.number(held)) return;  // another one by now: so will be the plan
    Program& known = program->second;
    known.plain_peak_bytes = plain.peak_bytes;
    known.activation_bytes = graph.activation_bytes;
    known.shares = std::move(shares);
    known.from_first_step = first_step;
    if (plain.peak_bytes <= cap) {
      known.plan = known.later_plan = nullptr;
      known.predicted_peak_bytes = plain.peak_bytes;
      BudgetNotices& notices = budget_.verdict().notices();
      if (!first_step) notices.noteFits(held, {plain.peak_bytes, graph.activation_bytes});
      notices.sayFits(held);
    }
  }
  if (plain.peak_bytes <= cap) {
    scheduler::Schedule everything = scheduler::keepEverything(graph.graph);
    if (!first_step)
      tellJob(trace, {std::move(graph), std::move(everything), {}}, limits, budget_number);
    return;
  }
  Planned planned = search_.best(trace, graph, cap);
  if (ends_) return;
  preferCompared(trace, first_step, cap, planned);
  std::optional<StepSchedule> own;  // for the ranks that it exchanges messages with
  if (trace.group_size > 1)
    own = StepSchedule{planned.step, planned.result.schedule, planned.result.planner};
  const auto publish_now = [&] {
    search_.replayAhead(trace, planned, cap);
    const std::chrono::duration<double> plan_time = std::chrono::steady_clock::now() - start;
    publish(trace, planned, plan_time.count(), budget_number);
  };
  publish_now();
  if (own && job_.follow(trace, planned, limits)) publish_now();
  if (own && !first_step) tellJob(trace, *own, limits, budget_number);
}

std::shared_ptr<const PlanPicture> Session::drawn(
    const scheduler::Trace& trace, const scheduler::TraceGraph& step,
    const scheduler::Schedule& schedule) const noexcept try {
  return std::make_shared<const PlanPicture>(drawPlan(trace, step, schedule));
} catch (const std::exception& error) {
  if (config_->log_level == "debug")
    std::fprintf(stderr, "[ebbtide rank %d] debug: a step could not be drawn: %s\n", config_->rank,
                 error.what());
  return nullptr;
}

std::shared_ptr<Plan> Session::planOf(const scheduler::Trace& trace, const Planned& planned,
                                      double plan_seconds) const {
  const auto& [step, result, simulated] = planned;
  std::shared_ptr<Plan> plan = makePlan(trace, step, result.schedule);
  plan->planner = result.planner;
  plan->asked = config_->planner;
  plan->note = result.note;
  plan->predicted_peak_bytes = simulated.peak_bytes;
  plan->recompute_ns = simulated.recompute_ns;
  plan->overhead_ratio = planned.overheadRatio(trace);
  plan->plan_seconds = plan_seconds;
  plan->feasible = result.feasible;
  plan->picture = drawn(trace, step, result.schedule);
  return plan;
}

void Session::putInForce(const Held&, Program& known, const std::shared_ptr<Plan>& plan,
                         std::int64_t predicted_peak_bytes, std::int64_t from_step) {
  if (plan != nullptr) {
    plan->trusted = known.hasCompared(*plan);
    metrics_.expectReplays(*plan);
  }
  if (known.adopt(plan, predicted_peak_bytes, from_step, steps_ + 1)) counters_.addReplan();
}

void Session::publish(const scheduler::Trace& trace, const Planned& planned, double plan_seconds,
                      int budget_number, std::int64_t from_step) {
  const auto& [step, result, simulated] = planned;
  std::shared_ptr<Plan> plan = planOf(trace, planned, plan_seconds);
  const Held held = mutex_.hold();
  if (closing_) return;
  const auto program = programs_.find(trace.signature);
  if (program == programs_.end()) return;             // forgotten meanwhile
  if (budget_number != budget_.number(held)) return;  // as planOnce()
  Program& known = program->second;
  // While it was made a rehearsal found out, or a write to the host failed.
  if (replay_trust_.rejects(*plan) || (outage_.began() && plan->host_fetches > 0)) {
    known.replan = true;
    to_record_.atLeast(2);
    return;
  }
  putInForce(held, known, plan, simulated.peak_bytes, from_step);
  to_record_.atLeast(3);
  if (!result.feasible) outage_.giveUp(held);
  budget_.verdict().notices().notePlan(held, {.feasible = result.feasible,
                                              .predicted_peak_bytes = simulated.peak_bytes,
                                              .host_bytes = plan->host_bytes});
  const std::string text = fmt::format(
      "plan by {}{} in {:.2f} s: predicted peak {} of {} plain, {} ops recomputed a step{}, {:.1f} "
      "% more time",
      plan->planner,
      plan->note.empty() ? "" : fmt::format(" ({} was asked: {})", plan->asked, plan->note),
      plan_seconds, formatBytes(plan->predicted_peak_bytes), formatBytes(known.plain_peak_bytes),
      plan->replays, copiesText(*plan), 100 * plan->overhead_ratio);
  // Where each step is a program of its own such lines tell of what no step follows.
  if (budget_.verdict().refusal().ends(held) || std::exchange(known.said_plan, true) ||
      said_plans_++ >= kSaidPlans) {
    debug(text);
  } else {
    say(text);
  }
}

}  // namespace ebbtide::plugin
