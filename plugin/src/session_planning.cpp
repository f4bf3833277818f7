// The planning thread of a Session: from a recorded trace to a published plan, and what is said
// about it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <utility>

#include "ebbtide/scheduler/advance_replays.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/spilling_floor.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"
#include "session.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Bytes;
using scheduler::Graph;
using scheduler::kNone;

constexpr auto kPlanningTime = std::chrono::milliseconds(2500);
constexpr double kCheapPlan = 0.01;  // of the step: not worth to look for a better one
constexpr int kFloorChecks = 2;
constexpr int kMostParts = 4;        // steps that may be parts of one
constexpr double kHeadroom = 0.005;  // of the budget: rounding and order of frees
constexpr Bytes kLeastHeadroom = 1 << 20;
// Pages of a GPU are 2 MiB, and one with a live block in it serves blocks of its stream alone.
constexpr double kHeadroomElsewhere = 0.03;
constexpr Bytes kLeastHeadroomElsewhere = 16 << 20;
constexpr auto kAdviceTime = std::chrono::seconds(60);  // for the ranks of a pipeline

// "aten::native_layer_norm 120.0 MiB, …": saved bytes by the op that made them, largest first.
std::string dominatingOps(const scheduler::TraceGraph& graph) {
  std::map<std::string, Bytes> by_op;
  std::vector<bool> read(graph.graph.values.size(), false);
  for (const auto& op : graph.graph.ops) {
    if (!op.backward) continue;
    for (const ValueId v : op.inputs) read[v] = true;
  }
  for (std::size_t v = 0; v < read.size(); ++v) {
    const auto& value = graph.graph.values[v];
    if (read[v] && !value.pinned) {
      by_op[value.producer == kNone ? "inputs" : graph.graph.ops[value.producer].name] +=
          value.bytes;
    }
  }
  std::vector<std::pair<Bytes, std::string>> order;
  order.reserve(by_op.size());
  for (const auto& [name, bytes] : by_op) order.emplace_back(bytes, name);
  std::sort(order.rbegin(), order.rend());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), 4); ++i) {
    text += (i ? ", " : "") + order[i].second + " " + formatBytes(order[i].first);
  }
  return text.empty() ? "nothing that was saved for backward" : text;
}

std::string copiesText(const Plan& plan) {
  std::string text;
  if (plan.decodes > 0) text += fmt::format(", {} values kept as bits", plan.decodes);
  if (plan.host_fetches > 0)
    text += fmt::format(", {} on the host ({})", plan.host_fetches, formatBytes(plan.host_bytes));
  return text;
}

}  // namespace

Bytes Session::headroom() const {
  const auto budget = static_cast<double>(this->budget().value_or(0));
  return trainsElsewhere()
             ? std::max(kLeastHeadroomElsewhere, static_cast<Bytes>(kHeadroomElsewhere * budget))
             : std::max(kLeastHeadroom, static_cast<Bytes>(kHeadroom * budget));
}

// Small blocks lie in chunks: what of them is free where a step is largest no plan can use. At
// other moments it may be much more. Nor can one use what others hold of the device.
Bytes Session::planningCap() const {
  return budget().value_or(kNoBudgetBytes) - memory_->ledger().marginBytes() -
         std::max<Bytes>(0, slack_at_peak_bytes_) - headroom();
}

scheduler::HostCopies Session::hostCopies() {
  // Memory that the user did not point to is not ours to take beside the budget.
  const bool only_memory = spills_ == &file_ && config_.spill_dir.empty() && file_.inMemory();
  if (!config_.offload || offload_fails_ || only_memory) return {};
  return {spills_->roundTripBytesPerSecond(), SpillTarget::kLeastBytes};
}

// Budget minus cap is what a plan must leave free; the smallest budget adds it on top of the floor.
// The first recorded step decides, and the second one, which begins with what the first one left;
// but not one that ran a part of the step before it backward: it goes on over updates from then on.
// The first step to end may belong to a thread whose steps are not recorded yet.
bool Session::checksFloor() {
  const bool part = late_backwards_ > late_backwards_before_step_;
  if (floor_checks_ == kFloorChecks || (part && steps_ < kMostParts)) return false;
  ++floor_checks_;
  return true;
}

// Is it known by now whether the budget is possible? What fits without the headroom is not refused,
// so that the figure that was told is not either; nor is what held where others are live, whose
// values count as fixed here but can be spilled. Steps that held are proof, whatever is computed,
// but not the first one, which begins without the optimizer's state.
bool Session::checkFloor(const scheduler::TraceGraph& graph, bool alone, bool in_pipeline,
                         int budget_changes) {
  const std::optional<Bytes> budget = this->budget();
  if (!budget) return true;
  const Bytes margin = *budget - planningCap();
  const Bytes floor = scheduler::spillingFloor(graph.graph) + margin;
  const Bytes least = floor - headroom();
  const std::lock_guard lock(mutex_);
  if (budget_changes != budget_changes_) return false;  // what it held is judged no more
  const bool told = smallest_feasible_bytes_ > 0;
  if (floor > smallest_feasible_bytes_ && (alone || !told)) {  // of the steps that were checked
    smallest_feasible_bytes_ = floor;
    dominating_ = dominatingOps(graph);
  }
  if (awaitsStage()) return false;  // by another budget
  if (violations_ <= violations_before_budget_) {
    if (least <= *budget || !alone) return true;
    if (floor_checks_ < kFloorChecks) return false;
    smallest_feasible_bytes_ = *budget;
    return true;
  }
  const Bytes would_do = std::max<Bytes>(smallest_feasible_bytes_, mapped_peak_bytes_);
  smallest_feasible_bytes_ = would_do;
  std::string spill_problem;  // the floor rests on spilling
  if (const std::string error = spills_->lastError(); !error.empty()) {
    spill_problem = " Note: " + error + " (EBBTIDE_SPILL_DIR chooses another folder).";
  }
  stop_message_ = fmt::format(
      "ebbtide: the budget of {} is too small for this step. Smallest feasible budget: {} "
      "(EBBTIDE_BUDGET={}MiB). "
      "Live at the step's start (parameters, gradients, optimizer, data): {}. Saved for backward, "
      "by op: {}. "
      "EBBTIDE_ON_INFEASIBLE=best-effort trains on over the budget.{}",
      formatBytes(*budget), formatBytes(would_do), (would_do + (1 << 20) - 1) >> 20,
      formatBytes(graph.base_bytes), dominating_, spill_problem);
  const bool stop = config_.on_infeasible == OnInfeasible::kStop;
  if (!said_infeasible_) {
    said_infeasible_ = true;
    std::fprintf(stderr, "[ebbtide rank %d] %s\n", config_.rank, stop_message_.c_str());
  }
  if (stop && in_pipeline && open_job_store_) {
    if (!stop_by_) stop_by_ = std::chrono::steady_clock::now() + kAdviceTime;
    return false;
  }
  stop_ = stop;
  return true;
}

// Of a step that has been recorded: what the report says of its activations, and by the end of the
// first one whether the budget is possible at all.
void Session::analyse(const scheduler::Trace& trace, bool first_step, bool check_floor, bool alone,
                      int budget_changes) try {
  const scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = first_step});
  auto shares = scheduler::activationShares(trace, graph);
  {
    std::lock_guard lock(mutex_);
    const auto program = programs_.find(trace.signature);
    if (program != programs_.end()) program->second.shares = std::move(shares);
  }
  if (!check_floor) return;
  const bool known =
      checkFloor(scheduler::buildGraph(trace, {.first_step = first_step, .unread_may_go = true}),
                 alone, trace.group_size > 1, budget_changes);
  // From here on an allocation that would go over the budget fails instead.
  if (!known || config_.on_infeasible != OnInfeasible::kStop) return;
  const std::lock_guard lock(mutex_);
  if (budget_changes == budget_changes_) memory_->allowOverrun(false);
} catch (const std::exception& error) {
  warn(std::string("a step could not be analysed: ") + error.what());
}

void Session::requestPlan(scheduler::Trace trace, bool first_step) {
  {
    std::lock_guard lock(mutex_);
    to_plan_ = std::make_unique<scheduler::Trace>(std::move(trace));
    to_plan_first_step_ = first_step;
    planning_ = true;
  }
  changed_.notify_all();
}

void Session::planLoop() {
  if (audits_) audits_->load();
  startRankJob();
  for (;;) {
    std::unique_ptr<scheduler::Trace> trace;
    bool first_step = false, to_place = false;
    int budget_changes = 0;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, nextLook(), [this] {
        return closing_ || to_plan_ != nullptr || (placement_ && placement_->hasWork());
      });
      if (closing_) return;
      trace = std::move(to_plan_);
      first_step = to_plan_first_step_;
      budget_changes = budget_changes_;
      to_place = placement_ && placement_->hasWork();
    }
    if (trace == nullptr) {
      if (to_place) placeStep();
      pollJob();
      continue;
    }
    try {
      planOnce(std::move(*trace), first_step, budget_changes);
    } catch (const std::exception& error) {
      warn(std::string("no plan could be made, values are spilled instead: ") + error.what());
    }
    std::lock_guard lock(mutex_);
    planning_ = to_plan_ != nullptr;
    if (budget_changes != budget_changes_) steps_to_record_ = std::max(steps_to_record_, 2);
  }
}

// Without addresses the allocator chooses some: no step depends on them.
void Session::placeStep() {
  try {
    debug(placement_->place());
  } catch (const std::exception& error) {
    debug(std::string("a step could not be placed: ") + error.what());
  }
}

void Session::planOnce(scheduler::Trace trace, bool first_step, int budget_changes) {
  const auto start = std::chrono::steady_clock::now();
  {
    std::lock_guard lock(mutex_);
    keepRejected(trace);
  }
  scheduler::TraceGraph graph = scheduler::buildGraph(trace, {.first_step = first_step});
  const std::optional<Bytes> budget = this->budget();
  if (!budget) {
    scheduler::Schedule everything = scheduler::keepEverything(graph.graph);
    tellJob(trace, {std::move(graph), std::move(everything), {}}, jobLimits(kNoBudgetBytes, budget),
            budget_changes);
    return;
  }
  const auto plain = scheduler::simulate(graph.graph, scheduler::keepEverything(graph.graph));
  auto shares = scheduler::activationShares(trace, graph);
  const Bytes cap = planningCap();
  const RankPlanning::Limits limits = jobLimits(cap, budget);
  {
    std::lock_guard lock(mutex_);
    const auto program = programs_.find(trace.signature);
    if (program == programs_.end()) return;         // forgotten meanwhile
    if (budget_changes != budget_changes_) return;  // it is another one by now: so will be the plan
    Program& known = program->second;
    known.plain_peak_bytes = plain.peak_bytes;
    known.activation_bytes = graph.activation_bytes;
    known.shares = std::move(shares);
    known.from_first_step = first_step;
    if (plain.peak_bytes <= cap) {
      known.plan = known.later_plan = nullptr;
      known.predicted_peak_bytes = plain.peak_bytes;
      if (!said_fits_) {
        said_fits_ = true;
        say(fmt::format("no effect because the step fits: its peak is {}, the budget {}",
                        formatBytes(plain.peak_bytes), formatBytes(*budget)));
      }
    }
  }
  if (plain.peak_bytes <= cap) {
    scheduler::Schedule everything = scheduler::keepEverything(graph.graph);
    if (!first_step)
      tellJob(trace, {std::move(graph), std::move(everything), {}}, limits, budget_changes);
    return;
  }
  Planned planned = bestPlan(trace, graph, cap);
  preferRehearsed(trace, first_step, cap, planned);
  std::optional<StepSchedule> own;  // for the ranks that it exchanges messages with
  if (trace.group_size > 1)
    own = StepSchedule{planned.step, planned.result.schedule, planned.result.planner};
  const auto publish_now = [&] {
    replayAhead(planned, cap);
    const std::chrono::duration<double> plan_time = std::chrono::steady_clock::now() - start;
    publish(trace, planned, plan_time.count(), budget_changes);
  };
  publish_now();
  if (own && followJob(trace, planned, limits)) publish_now();
  if (own && !first_step) tellJob(trace, *own, limits, budget_changes);
}

// By the time that a copy on the host may take, against the value's op. Others than the quicker
// ones pay where chains are long, and reach lower peaks.
Session::Planned Session::bestPlan(const scheduler::Trace& trace,
                                   const scheduler::TraceGraph& plain, Bytes cap) const {
  Planned best;
  std::vector<scheduler::TraceGraph::Restore> copies;
  for (const double times : {1.0, 3.0, std::numeric_limits<double>::infinity()}) {
    Planned next{plain, {}, {}};
    scheduler::addValueCopies(trace, next.step, times);
    if (next.step.restores == copies) continue;  // as before
    copies = next.step.restores;
    next.result = planWithin(next.step.graph, cap);
    next.simulated = scheduler::simulate(next.step.graph, next.result.schedule);
    debug(fmt::format(
        "copies up to {} times as slow as their ops: {} peak {} of {}, {:.1f} ms more", times,
        next.result.feasible ? "feasible," : "infeasible,", next.simulated.peak_bytes, cap,
        static_cast<double>(next.simulated.recompute_ns) * 1e-6));
    if (best.result.schedule.steps.empty() || next.betterThan(best)) best = std::move(next);
    const double cost = static_cast<double>(best.simulated.recompute_ns);
    const bool cheap = cost < kCheapPlan * static_cast<double>(trace.duration_ns);
    if (trace.host.bytes_per_second == 0 || (best.result.feasible && cheap)) break;
  }
  return best;
}

// Where the rank waits for messages: what is left of the cap holds what is replayed meanwhile.
void Session::replayAhead(Planned& planned, Bytes cap) const {
  if (!config_.replay_ahead) return;
  scheduler::AdvancedReplays ahead =
      scheduler::advanceReplays(planned.step.graph, planned.result.schedule, cap);
  if (ahead.moved == 0) return;
  if (const auto problem = scheduler::validate(planned.step.graph, ahead.schedule)) {
    debug("no replays ahead of messages: " + *problem);
    return;
  }
  planned.result.schedule = std::move(ahead.schedule);
  planned.simulated = scheduler::simulate(planned.step.graph, planned.result.schedule);
  debug(fmt::format("{} replays of {:.1f} ms run while messages are under way", ahead.moved,
                    static_cast<double>(ahead.moved_ns) * 1e-6));
}

bool Session::Planned::betterThan(const Planned& other) const {
  if (result.feasible != other.result.feasible) return result.feasible;
  if (!result.feasible && simulated.peak_bytes != other.simulated.peak_bytes)
    return simulated.peak_bytes < other.simulated.peak_bytes;
  return simulated.recompute_ns < other.simulated.recompute_ns;
}

scheduler::PlanResult Session::planWithin(const Graph& graph, Bytes cap) const {
  scheduler::PlannerOptions options;
  options.deadline = std::chrono::steady_clock::now() + kPlanningTime;
  scheduler::PlanResult result = scheduler::planner(config_.planner).plan(graph, cap, options);
  if (const auto problem = scheduler::validate(graph, result.schedule)) {
    throw std::runtime_error("the planner's schedule is not legal: " + *problem);
  }
  return result;
}

void Session::publish(const scheduler::Trace& trace, const Planned& planned, double plan_seconds,
                      int budget_changes, std::int64_t from_step) {
  const auto& [step, result, simulated] = planned;
  std::shared_ptr<Plan> plan = makePlan(trace, step, result.schedule);
  plan->planner = result.planner;
  plan->predicted_peak_bytes = simulated.peak_bytes;
  plan->recompute_ns = simulated.recompute_ns;
  plan->overhead_ratio = static_cast<double>(simulated.recompute_ns) /
                         static_cast<double>(std::max<std::int64_t>(1, trace.duration_ns));
  plan->plan_seconds = plan_seconds;
  plan->feasible = result.feasible;
  std::lock_guard lock(mutex_);
  const auto program = programs_.find(trace.signature);
  if (program == programs_.end()) return;         // forgotten meanwhile
  if (budget_changes != budget_changes_) return;  // as planOnce()
  Program& known = program->second;
  if (replaysRejected(*plan)) {  // while it was made a rehearsal found out
    known.replan = true;
    steps_to_record_ = std::max(steps_to_record_, 2);
    return;
  }
  plan->trials = rehearsedBefore(trace, *plan) ? 1 : 0;
  known.later_plan = nullptr;
  if (from_step > steps_ + 1) {
    known.later_plan = plan;
    known.later_from = from_step;
  } else {
    known.plan = plan;
  }
  known.predicted_peak_bytes = simulated.peak_bytes;
  known.steady_peak_bytes = 0;
  known.slow_offloads = 0;
  steps_to_record_ = std::max(steps_to_record_, 3);
  if (const std::optional<Bytes> budget = this->budget(); budget && !result.feasible) {
    const Bytes margin = *budget - planningCap();
    smallest_without_spill_bytes_ = simulated.peak_bytes + margin;
    // What is kept free may have become less since the plan was begun.
    if (smallest_without_spill_bytes_ > *budget && !stop_by_ &&
        !std::exchange(said_spills_, true)) {
      warn(
          fmt::format("the best plan reaches {}, the budget is {}, of which {} are kept free: the "
                      "rest is spilled to the host's disk each step; from {} on nothing is spilled",
                      formatBytes(simulated.peak_bytes), formatBytes(*budget), formatBytes(margin),
                      formatBytes(smallest_without_spill_bytes_)));
    }
  }
  const std::string text = fmt::format(
      "plan by {} in {:.2f} s: predicted peak {} of {} plain, {} ops recomputed a step{}, {:.1f} % "
      "more time",
      plan->planner, plan_seconds, formatBytes(plan->predicted_peak_bytes),
      formatBytes(known.plain_peak_bytes), plan->replays, copiesText(*plan),
      100 * plan->overhead_ratio);
  if (std::exchange(known.said_plan, true)) {
    debug(text);
  } else {
    say(text);
  }
}

}  // namespace ebbtide::plugin
