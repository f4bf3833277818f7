#include "runtime/step_planning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/no_budget.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "plan/plan_picture.hpp"
#include "runtime/budget/shown_plan.hpp"
#include "runtime/programs/plan_improvement.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Bytes;

constexpr std::size_t kPlannedAtOnce = 8;  // programs; of more, those that came back
constexpr int kSaidPlans = 3;  // under one budget: of more programs' plans debug lines tell

std::string copiesText(const Plan& plan, bool of_gpu) {
  std::string text;
  if (plan.predicted.decodes > 0)
    text += fmt::format(", {} masks compressed", plan.predicted.decodes);
  if (plan.predicted.host_fetches > 0)
    text += fmt::format(", {} values on {} ({})", plan.predicted.host_fetches,
                        of_gpu ? "the host" : "disk", formatBytes(plan.predicted.host_bytes));
  return text;
}

std::string planText(const Plan& plan, const Program& of, bool of_gpu) {
  return fmt::format(
      "plan by {}{} in {:.2f} s: predicted peak {} instead of {} plain; each step: {} ops "
      "recomputed{}, {:.1f} % more time",
      plan.origin.planner,
      plan.origin.note.empty()
          ? ""
          : fmt::format(" ({} was asked: {})", plan.origin.asked, plan.origin.note),
      plan.origin.plan_seconds, formatBytes(plan.predicted.peak_bytes),
      formatBytes(of.plain.peak_bytes), plan.predicted.replays, copiesText(plan, of_gpu),
      100 * plan.predicted.overhead_ratio);
}

// Does the schedule run none again but the trace's rerunnable ops?
bool replaysOnly(const scheduler::Trace& trace, const scheduler::TraceGraph& graph,
                 const scheduler::Schedule& schedule) {
  std::vector<bool> ran(graph.graph.ops.size(), false);
  for (const scheduler::Step& step : schedule.steps) {
    if (step.kind != scheduler::Step::Kind::kRun) continue;
    const OpId op = graph.trace_op_of[step.id];
    if (ran[step.id] && op != scheduler::kNone && !trace.ops[op].rerunnable) return false;
    ran[step.id] = true;
  }
  return true;
}

// Of its own, in which ops whose replays were rejected are not rerunnable.
RecordedStep withoutRejected(const RecordedStep& recorded, const ReplayTrust& trust) {
  auto trace = std::make_shared<scheduler::Trace>(*recorded.trace);
  trust.keepRejected(*trace);
  RecordedStep own = recorded;
  own.trace = std::move(trace);
  return own;
}

}  // namespace

StepPlanning::StepPlanning(Parts parts)
    : service_(parts.service),
      budget_(parts.budget),
      outlook_(parts.budget, parts.ends, parts.debug),
      outage_(parts.outage),
      job_(parts.job),
      trust_(parts.trust),
      counters_(parts.counters),
      ends_(parts.ends),
      debug_(std::move(parts.debug)) {}

// -----------------------------------------------------------------------------------------------
// what is asked for

void StepPlanning::ask(RecordedStep step) {
  {
    const Held held = run().guard.hold();
    run().taken.record(step);
    if (!wants(held, *step.trace)) return;
    service_.ask(held, std::move(step));
  }
  service_.wake();
}

bool StepPlanning::wants(const Held& held, const scheduler::Trace& trace) {
  if (service_.isBusy(held) || run().keeps_everything || budget_.paused()) return false;
  const BudgetRefusal& refusal = budget_.verdict().refusal();
  if (refusal.ends(held) && !refusal.inPipeline(held)) return false;  // no plan could hold it
  Program& known = run().programs[trace.signature];
  if (!budget_.bytes()) {  // to foresee what one would do; and other ranks wait for its word
    const bool foresees =
        run().steps >= kStepsForOutlook && run().programs.size() <= kPlannedAtOnce;
    const bool tells = trace.group_size > 1 && run().steps >= 2;
    if (known.planning.asked || !(foresees || tells)) return false;
    return known.planning.asked = true;
  }
  if (waitsForSearch(held, known)) return false;
  const bool first_plan_is_old = known.planning.from_first_step && run().steps >= 3;
  if (known.planning.asked && !known.planning.replan && !known.planning.unpolished &&
      !first_plan_is_old)
    return false;
  // Where shapes change with each step a plan is of use only for what comes back.
  if (run().programs.size() > kPlannedAtOnce && known.steps < 2) return false;
  known.planning.replan = known.planning.unpolished = known.planning.awaits_search = false;
  known.planning.asked = true;
  return true;
}

// -----------------------------------------------------------------------------------------------
// a step is planned

void StepPlanning::plan(const RecordedStep& step, int budget_number) {
  try {
    planOnce(step, budget_number);
  } catch (const std::exception& error) {
    sayUnplanned(step, error.what());
  }
  const Held held = run().guard.hold();
  service_.endPlanning(held);
  const bool changed = budget_number != budget_.number(held);
  if (changed) run().to_record.atLeast(2);
  if (changed || budget_.paused()) keepAsked(held, step.trace->signature);
}

// A pause came between, and no plan was made: it is still asked for once the run goes on. Another
// budget asks anew by itself.
void StepPlanning::keepAsked(const Held&, std::uint64_t signature) {
  const auto known = run().programs.find(signature);
  if (known != run().programs.end() && known->second.planning.asked) known->second.askUncounted();
}

void StepPlanning::planOnce(const RecordedStep& recorded, int budget_number) {
  Task task{.start = std::chrono::steady_clock::now(), .budget_number = budget_number};
  task.step = withoutRejected(recorded, trust_);
  const scheduler::Trace& trace = *task.step.trace;
  scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = task.step.first_step});
  const std::optional<Bytes> budget = budget_.bytes();
  if (!budget) {
    outlook_.foresee(trace, graph);
    if (trace.group_size > 1) tellPlain(task, std::move(graph), jobLimits(kNoBudgetBytes, budget));
    return;
  }
  const Bytes plain_peak =
      scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph)).peak_bytes;
  auto shares = scheduler::activationShares(trace, graph);
  task.cap = run().trained.planningCapBytes();
  const RankPlanning::Limits limits = jobLimits(task.cap, budget);
  if (!notePlain(task, graph, plain_peak, std::move(shares))) return;
  if (plain_peak > task.cap) return planWithin(task, graph, limits);
  if (!task.step.first_step) tellPlain(task, std::move(graph), limits);
}

bool StepPlanning::notePlain(const Task& task, const scheduler::TraceGraph& graph, Bytes plain_peak,
                             scheduler::ActivationShares shares) {
  const Held held = run().guard.hold();
  const auto program = run().programs.find(task.step.trace->signature);
  if (program == run().programs.end()) return false;  // forgotten meanwhile
  // Another budget by now: so will be the plan.
  if (task.budget_number != budget_.number(held)) return false;
  Program& known = program->second;
  known.plain.peak_bytes = plain_peak;
  known.plain.activation_bytes = graph.activation_bytes;
  known.plain.shares = std::move(shares);
  known.planning.from_first_step = task.step.first_step;
  if (plain_peak > task.cap) return true;
  known.dropPlan();
  known.in_force.predicted_peak_bytes = plain_peak;
  BudgetNotices& notices = budget_.verdict().notices();
  if (!task.step.first_step) notices.noteFits(held, {plain_peak, graph.activation_bytes});
  notices.sayFits(held);
  return true;
}

void StepPlanning::planWithin(const Task& task, const scheduler::TraceGraph& graph,
                              const RankPlanning::Limits& limits) {
  const scheduler::Trace& trace = *task.step.trace;
  // What the first step tells of times and of the base is worth no search: a later one is.
  const bool at_once = publishFirst(task, graph);
  if (at_once && task.step.first_step) return;
  // One that this step does not fit is no better than any that the search finds.
  if ((at_once || outage_.began()) && beginPolishing(task, graph)) return;
  Planned planned = service_.search().best(trace, graph, task.cap);
  if (ends_) return;
  preferCompared(trace, task.step.first_step, task.cap, planned);
  std::optional<StepSchedule> own;  // for the ranks that it exchanges messages with
  if (trace.group_size > 1)
    own = StepSchedule{planned.step, planned.result.schedule, planned.result.planner};
  const auto publish_now = [&] {
    service_.search().replayAhead(trace, planned, task.cap);
    publish(trace, planned, task.took().count(), task.budget_number);
  };
  publish_now();
  if (own && job_.follow(trace, planned, limits)) publish_now();
  if (own && !task.step.first_step) tellJob(trace, *own, limits, task.budget_number);
}

// Where no originals can be spilled no plan can be verified: one that replays only what has been
// compared is taken, unless its peak is higher.
void StepPlanning::preferCompared(const scheduler::Trace& trace, bool first_step, std::int64_t cap,
                                  Planned& planned) const {
  if (!outage_.began()) return;
  scheduler::Trace compared = trace;
  bool any = false;
  {
    const Held held = run().guard.hold();
    const auto known = run().programs.find(trace.signature);
    if (known == run().programs.end()) return;
    for (std::size_t op = 0; op < compared.ops.size(); ++op) {
      const bool was = known->second.verifications.compared.contains(static_cast<OpId>(op));
      compared.ops[op].rerunnable = compared.ops[op].rerunnable && was;
      any = any || was;
    }
  }
  if (!any || replaysOnly(compared, planned.step, planned.result.schedule)) return;
  Planned other = service_.search().best(
      compared, scheduler::buildGraph(compared, {.first_step = first_step}), cap);
  const bool higher = other.simulated.peak_bytes > std::max(cap, planned.simulated.peak_bytes);
  const std::int64_t longer = other.simulated.recompute_ns - planned.simulated.recompute_ns;
  debug_(fmt::format("a plan of replays that were compared before: {} peak, {:.1f} ms longer",
                     higher ? "higher" : "no higher", static_cast<double>(longer) * 1e-6));
  if (!higher) planned = std::move(other);
}

std::shared_ptr<Plan> StepPlanning::within(const scheduler::Trace& trace, bool first_step,
                                           std::int64_t cap) const {
  const auto start = std::chrono::steady_clock::now();
  const scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = first_step});
  Planned planned = service_.search().best(trace, graph, cap);
  preferCompared(trace, first_step, cap, planned);
  service_.search().replayAhead(trace, planned, cap);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return planOf(trace, planned, took.count());
}

std::shared_ptr<const PlanPicture> StepPlanning::drawn(
    const scheduler::Trace& trace, const scheduler::TraceGraph& step,
    const scheduler::Schedule& schedule) const noexcept try {
  return std::make_shared<const PlanPicture>(drawPlan(trace, step, schedule));
} catch (const std::exception& error) {
  if (run().config->log_level == "debug")
    std::fprintf(stderr, "[ebbtide rank %d] debug: a step could not be drawn: %s\n",
                 run().config->rank, error.what());
  return nullptr;
}

std::shared_ptr<Plan> StepPlanning::planOf(const scheduler::Trace& trace, const Planned& planned,
                                           double plan_seconds) const {
  const auto& [step, result, simulated] = planned;
  std::shared_ptr<Plan> plan = makePlan(trace, step, result.schedule);
  plan->origin.planner = result.planner;
  plan->origin.asked = run().config->planning.planner;
  plan->origin.note = result.note;
  plan->predicted.peak_bytes = simulated.peak_bytes;
  plan->predicted.recompute_ns = simulated.recompute_ns;
  plan->predicted.overhead_ratio = planned.overheadRatio(trace);
  plan->origin.plan_seconds = plan_seconds;
  plan->feasible = result.feasible;
  plan->picture = drawn(trace, step, result.schedule);
  return plan;
}

// -----------------------------------------------------------------------------------------------
// a plan comes into force

void StepPlanning::putInForce(const Held&, Program& known, const std::shared_ptr<Plan>& plan,
                              std::int64_t predicted_peak_bytes, std::int64_t from_step) {
  if (plan != nullptr) {
    if (known.in_force.plan != nullptr && plan->doesAs(*known.in_force.plan))
      plan->course = known.in_force.plan->course;
    plan->trusted = known.hasCompared(*plan);
    run().metrics.expectReplays(*plan);
  }
  if (known.adopt(plan, predicted_peak_bytes, from_step, run().steps + 1)) counters_.addReplan();
}

// Ranks that exchange messages agree on what each one runs, replays ahead of messages included.
// They would not learn of a plan that one rank follows for some seconds alone.
bool StepPlanning::takesFirst(const Held& held, const scheduler::Trace& trace,
                              int budget_number) const {
  if (trace.group_size > 1 || outage_.began()) return false;
  if (ends_ || budget_number != budget_.number(held)) return false;
  const auto program = run().programs.find(trace.signature);
  if (program == run().programs.end() || program->second.later.plan != nullptr) return false;
  const Program& known = program->second;
  // One that could not be verified would be found again.
  return known.in_force.isFirst() ||
         (known.in_force.plan == nullptr && known.verifications.failed == 0);
}

// Of a first plan that is in force, what it comes to in this step.
std::optional<Planned> StepPlanning::findFirst(const scheduler::Trace& trace,
                                               const scheduler::TraceGraph& graph, Bytes cap) {
  FirstPlan before;
  {
    const Held held = run().guard.hold();
    const auto known = run().programs.find(trace.signature);
    if (known != run().programs.end() && known->second.in_force.isFirst())
      before = known->second.in_force.first;
  }
  if (before.any()) {
    if (auto found = PlanSearch::again(trace, graph, cap, before.made())) return found;
  }
  return service_.search().first(trace, graph, cap);
}

// Nothing is said of the budget by it, nor of the plan: what the search finds decides.
bool StepPlanning::publishFirst(const Task& task, const scheduler::TraceGraph& graph) try {
  const scheduler::Trace& trace = *task.step.trace;
  if (!takesFirst(run().guard.hold(), trace, task.budget_number)) return false;
  std::optional<Planned> planned = findFirst(trace, graph, task.cap);
  if (!planned) return false;
  const std::shared_ptr<Plan> plan = planOf(trace, *planned, task.took().count());
  const Held held = run().guard.hold();
  if (!takesFirst(held, trace, task.budget_number) || trust_.rejects(*plan)) return false;
  Program& known = run().programs[trace.signature];
  putInForce(held, known, plan, plan->predicted.peak_bytes);
  known.in_force.first = FirstPlan(plan, std::move(*planned));
  run().to_record.atLeast(3);
  debug_("at first a " + planText(*plan, known, run().trained.isElsewhere()));
  return true;
} catch (const std::exception& error) {  // a search may do better
  debug_(std::string("no plan at once: ") + error.what());
  return false;
}

void StepPlanning::publish(const scheduler::Trace& trace, const Planned& planned,
                           double plan_seconds, int budget_number, std::int64_t from_step) {
  const std::shared_ptr<Plan> plan = planOf(trace, planned, plan_seconds);
  const Held held = run().guard.hold();
  if (ends_) return;
  const auto program = run().programs.find(trace.signature);
  if (program == run().programs.end()) return;        // forgotten meanwhile
  if (budget_number != budget_.number(held)) return;  // as notePlain()
  Program& known = program->second;
  // While it was made a verification step found out, or a write to the host failed.
  if (trust_.rejects(*plan) || (outage_.began() && plan->predicted.host_fetches > 0)) {
    known.askUncounted();
    run().to_record.atLeast(2);
    return;
  }
  run().to_record.atLeast(3);  // whichever it is: another one may have been asked for meanwhile
  // A first plan that steps found wanting goes in any case.
  const std::shared_ptr<const Plan>& first = service_.improved(held);
  const bool stays = first != nullptr && known.in_force.plan == first && !known.planning.replan &&
                     !PlanImprovement::pays(*first, *plan, known.hasCompared(*plan));
  if (stays) {
    known.in_force.first = {};
    return notePlanned(held, known, *first);
  }
  putInForce(held, known, plan, planned.simulated.peak_bytes, from_step);
  notePlanned(held, known, *plan);
}

// No better one is searched for any more.
void StepPlanning::notePlanned(const Held& held, Program& known, const Plan& plan) {
  budget_.verdict().notices().notePlan(held, {.feasible = plan.feasible,
                                              .predicted_peak_bytes = plan.predicted.peak_bytes,
                                              .host_bytes = plan.predicted.host_bytes});
  sayPlan(held, known, plan);
}

// Where each step is a program of its own such lines tell of what no step follows.
void StepPlanning::sayPlan(const Held& held, Program& known, const Plan& plan) {
  const std::string text = planText(plan, known, run().trained.isElsewhere());
  if (budget_.verdict().refusal().ends(held) || std::exchange(known.planning.said_plan, true) ||
      said_plans_++ >= kSaidPlans) {
    debug_(text);
  } else {
    run().say(text);
  }
}

// The plan in force holds on, if there is one. That of the first step is not made anew each step.
void StepPlanning::sayUnplanned(const RecordedStep& step, const std::string& why) {
  const Held held = run().guard.hold();
  const auto program = run().programs.find(step.trace->signature);
  if (program != run().programs.end() && !step.first_step)
    program->second.planning.from_first_step = false;
  if (program == run().programs.end() || program->second.in_force.plan == nullptr)
    return run().warn(fmt::format("no plan could be made, {}: {}", outage_.withoutPlan(), why));
  run().warn("no better plan could be made, the one before is followed: " + why);
  run().to_record.atLeast(3);
  Program& known = program->second;
  if (!known.in_force.isFirst()) return;
  known.in_force.first = {};
  notePlanned(held, known, *known.in_force.plan);
}

// The run was too short for a search to end: its steps followed this plan all the same.
void StepPlanning::sayUnsaid(const Held& held) {
  const std::shared_ptr<const Plan> plan = shownPlan(held, budget_).plan;
  if (plan == nullptr || run().programs.active().fromStepOf(*plan) < 0) return;
  const auto known = plan != nullptr ? run().programs.find(plan->signature) : run().programs.end();
  if (known != run().programs.end() && known->second.in_force.first.any())
    sayPlan(held, known->second, *plan);
}

// The budget that it was made for is in force just now.
void StepPlanning::take(const Held& held, const AskedPlan& asked) {
  const auto found = run().programs.find(asked.trace.signature);
  if (found == run().programs.end()) return;
  if (asked.plan != nullptr && trust_.rejects(*asked.plan)) return;
  Program& known = found->second;
  putInForce(held, known, asked.plan, asked.predicted_peak_bytes);
  known.plain.peak_bytes = asked.plain_peak_bytes;
  known.planning.from_first_step = asked.first_step;
  known.planning.replans = known.verifications.failed = 0;
  known.planning.replan = known.planning.unpolished = false;
  // The other ranks of its job wait for its word on the new budget: it is planned once more.
  known.planning.asked = asked.trace.group_size <= 1;
}

void StepPlanning::planAllAnew(const Held& held) {
  for (auto& [signature, known] : run().programs) known.forgetVerdict();
  service_.need(held);  // who asks does not wait until planning may go on
  budget_.judgeAgain(held);
  run().to_record.atLeast(3);
}

// -----------------------------------------------------------------------------------------------
// the job's plan

RankPlanning::Limits StepPlanning::jobLimits(std::int64_t cap,
                                             std::optional<std::int64_t> budget) const {
  const Held held = run().guard.hold();
  return job_.limits(cap, budget, budget_.ofRank(held).asksOthers());
}

void StepPlanning::tellPlain(const Task& task, scheduler::TraceGraph graph,
                             const RankPlanning::Limits& limits) {
  scheduler::Schedule everything = scheduler::keepEverything(graph.graph);
  tellJob(*task.step.trace, {std::move(graph), std::move(everything), {}}, limits,
          task.budget_number);
}

// Others may ask for plans meanwhile.
void StepPlanning::tellJob(const scheduler::Trace& trace, const StepSchedule& own,
                           const RankPlanning::Limits& limits, int budget_number) try {
  {
    const Held held = run().guard.hold();
    if (budget_number != budget_.number(held)) return;
    service_.noteTold(held);
  }
  job_.tell(trace, own, limits);
  {
    const Held held = run().guard.hold();
    if (budget_number != budget_.number(held)) return;  // it tells more soon
    budget_.verdict().refusal().stop(held).noteTold(job_.takesPart());
  }
  service_.wake();
} catch (const std::exception& error) {
  debug_(std::string("no part in a plan of the job: ") + error.what());
}

// What may be planned with has changed since it was made: what is over that, and over what the
// rank runs by now, is made anew from the next recorded step.
void StepPlanning::adopt(const RankJob::Decision& decision) try {
  int budget_number = 0;
  {
    const Held held = run().guard.hold();
    budget_number = budget_.number(held);
  }
  const Bytes cap = run().trained.planningCapBytes();
  Planned planned;
  JobClient::put(decision.schedule, cap, planned);
  if (!planned.result.feasible) {
    const Held held = run().guard.hold();
    const auto program = run().programs.find(decision.trace.signature);
    if (program == run().programs.end()) return;
    Program& known = program->second;
    const Bytes now =
        known.in_force.plan ? known.in_force.plan->predicted.peak_bytes : known.plain.peak_bytes;
    if (planned.simulated.peak_bytes > now) {
      known.askAgain();
      run().to_record.atLeast(2);
      return;
    }
  }
  service_.search().replayAhead(decision.trace, planned, cap);
  publish(decision.trace, planned, 0, budget_number, decision.from_step);
} catch (const std::exception& error) {
  debug_(std::string("the job's plan could not be used: ") + error.what());
}

}  // namespace ebbtide::plugin
