// Whether a Session's budget can be held: what the steps tell, and when it is refused.
//
//   step k goes over ──► one line at its end ──► k+1, k+2 … go over, too, and are counted
//     ──► the base is settled, at the latest when k+3 begins: refused, with the budget that trains
//           └ lower than k's, and a step has held since: judged anew, once, by the steps to come
//
// A program that catches the refusal and goes on with something else, a smaller batch for one, is
// judged anew.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/kept_blocks.hpp"
#include "ebbtide/scheduler/spilling_floor.hpp"
#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::Bytes;
using scheduler::kNone;

constexpr int kMostSavedOps = 4;        // that a refusal names
constexpr int kMostUndecided = 12;      // steps that are recorded while nothing is decided
constexpr std::int64_t kLeastPart = 4;  // of what has grown: what is told by name

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
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), kMostSavedOps); ++i) {
    text += (i ? ", " : "") + order[i].second + " " + formatBytes(order[i].first);
  }
  return text.empty() ? "nothing that was saved for backward" : text;
}

std::uint64_t firstOpOf(const scheduler::Trace& trace) {
  return trace.ops.empty() ? 0 : trace.ops[0].signature;
}

}  // namespace

// Steps that held a smaller budget than they should need are proof that it will do.
std::int64_t Session::smallestBudgetBytes() const noexcept {
  const Bytes needed = floor_.neededBytes();
  const Bytes named = trained_.namedBudgetBytes(needed > 0 ? needed + grown_bytes_ : 0);
  const Bytes held = heldBudgetBytes();
  return held > 0 ? std::min(named, held) : named;
}

std::int64_t Session::heldBudgetBytes() const noexcept {
  const Bytes held = floor_.heldBytes();
  return held > 0 ? held + grown_since_held_bytes_ : 0;
}

// Of the base, beyond what a step began with, and what was judged.
std::int64_t Session::grownSince(const Held&, std::int64_t base_bytes) const noexcept {
  const auto growth = growth_.found();
  if (!growth || !growth->isGrowth()) return 0;
  return std::max<Bytes>(0, growth->bytes - std::max(base_bytes, growth->from_bytes));
}

// True: it is the most by now.
bool Session::noteNeed(const Held& held, Bytes needed_bytes, bool alone, Bytes base_bytes) {
  const bool most = floor_.noteNeed(needed_bytes, alone, base_bytes);
  noteGrown(held);
  return most;
}

std::int64_t Session::neededBytes() const noexcept {
  const Bytes needed = floor_.neededBytes();
  return needed > 0 ? needed + trained_.headroomBytes() : 0;
}

// Before the first step nothing can be dropped: loading may take more than any step. What a parent
// did before it forked is no word on its child, nor is the budget of the rank that it was taken
// for.
void Session::noteStart() {
  const allocator::Statistics memory = this->memory().statistics();
  const Bytes peak = memory.used_peak_bytes;
  const Held held = mutex_.hold();
  const bool holds = peak <= budget().value_or(allocator::kUnlimited);
  if (forked_ || holds) return floor_.countFrom(memory.budget_violations);
  floor_.noteStart({memory.budget_violations, peak}, memory.allocated_bytes);
}

// What the machine does not have fails without us, too, and is no word on the program.
void Session::noteFailedAllocation(std::size_t bytes) noexcept try {
  if (bytes <= static_cast<std::size_t>(usableMemoryBytes())) allocation_failed_ = true;
} catch (...) {
  allocation_failed_ = true;
}

// A step begins. What failed where the machine or the group is full may be caught; the program that
// follows is another one.
void Session::forgetFailed(const Held& held) {
  if (!allocation_failed_.exchange(false) || !budget() || floor_.decided()) return;
  beginOther(held);
  to_record_.atLeast(1);
}

// Another program begins: nothing that is known of the one before is told of it.
void Session::beginOther(const Held&) {
  floor_.beginOther(memory().statistics().budget_violations);
  taken_.forgetRecorded();
  floor_text_.clear();
  saved_text_.clear();
  fits_.reset();
  spills_each_step_.clear();
  smallest_without_spill_bytes_ = 0;
  figures_.forgetPeaks();
}

// A step that decides is over.
void Session::noteFloor(const scheduler::Trace& trace, const scheduler::TraceGraph& graph,
                        bool alone, int budget_number) {
  const scheduler::SpillingFloor floor = scheduler::spillingFloor(graph.graph);
  const Bytes needed = floor.bytes + trained_.unplannedBytes();
  const Held held = mutex_.hold();
  if (budget_number != budget_.number()) return;  // what it held is judged no more
  const bool most = noteNeed(held, needed, alone, trace.base_bytes);
  if (most || floor_text_.empty()) describeNeed(held, trace, graph, floor, most);
  exportSmallestBudget(held);
  if (!budget() || budget_.isOpen() || outage_.awaitsPlan()) return;
  in_pipeline_ = trace.group_size > 1;
  const Bytes before = floor_.neededBytes();
  const bool over =
      floor_.noteStep({.violations = violations_, .mapped_peak_bytes = figures_.usedPeakBytes()});
  if (floor_.neededBytes() > before) needs_most_first_op_ = firstOpOf(trace);
  noteGrown(held);
  exportSmallestBudget(held);
  if (!over) return;
  const std::string why = fmt::format("steps need {}", formatBytes(floor_.neededBytes()));
  if (takeBudgetBack(held, why)) return;
  if (config_->on_infeasible != OnInfeasible::kStop) return;
  if (!pauseAgain(held, why)) sayOverBudget(held);
}

// Of the program that needs most.
void Session::describeNeed(const Held&, const scheduler::Trace& trace,
                           const scheduler::TraceGraph& graph,
                           const scheduler::SpillingFloor& floor, bool most) {
  floor_text_ = scheduler::describe(scheduler::floorBlocks(trace, graph, floor));
  saved_text_ = dominatingOps(graph);
  if (most) needs_most_first_op_ = firstOpOf(trace);
}

// Once under each budget, and of the search after it was judged anew: that has steps of its own.
void Session::sayOverBudget(const Held&) {
  const bool again = floor_.judgedAnew();
  if (!budget_.isNew(RankBudget::Message::kOver) && !again) return;
  const Bytes needed = floor_.neededBytes(), now = budget().value_or(0);
  const std::string who = floor_.needsMostAtStart() && !again
                              ? "the program, before its first step,"
                              : fmt::format("step {}", steps_);
  std::string what;
  if (again) {
    what = fmt::format(
        "went over the budget of {} again{}", formatBytes(now),
        needed > now ? fmt::format("; the steps so far needed at least {}", formatBytes(needed))
                     : "");
  } else if (needed > now) {
    what = fmt::format("needed at least {}, more than the budget of {}", formatBytes(needed),
                       formatBytes(now));
  } else {
    what = fmt::format("went over the budget of {}", formatBytes(now));
  }
  warn(
      fmt::format("{} {}: training goes on over the budget for at most {} more steps, to find the "
                  "budget that trains",
                  who, what, BudgetFloor::kMostOver));
}

bool Session::endsForBudget(const Held&) const {
  return budget() && floor_.tooSmall() && config_->on_infeasible == OnInfeasible::kStop;
}

// The smallest budget that is told is that of the base as it is now.
void Session::noteGrown(const Held& held) noexcept {
  grown_bytes_ = grownSince(held, floor_.neededBaseBytes());
  grown_since_held_bytes_ = grownSince(held, 0);
}

// A step begins.
void Session::judgeBudget(const Held& held, std::int64_t base_bytes, bool trains) {
  const std::optional<Bytes> budget = this->budget();
  if (!budget) {
    trained_.forgetLater();
    if (trains) measureGrowth(held, base_bytes);
    return;
  }
  if (keeps_everything_ && config_->on_infeasible == OnInfeasible::kStop)
    return trained_.refuseOverrun();  // nothing is recorded any more by which it could be judged
  if (budget_.isOpen()) return mayGoOver(held);
  // Forward passes without a backward one (a norm that is logged) begin steps, but none that tell.
  // Nor do those of a thread that only looks on: another one's step may be half done.
  const bool tells = trains && std::exchange(begin_told_after_, steps_) != steps_;
  if (floor_.decided()) {
    if (tells) trained_.later().beginStep(steps_ + 1, base_bytes);
    growth_due_ = (tells && growth_.note(steps_ + 1, base_bytes)) || growth_due_;
    noteGrown(held);
    if (growth_due_) to_record_.atLeast(1);
    if (config_->on_infeasible != OnInfeasible::kStop || budget_.isAsked())
      trained_.keepOverrunLimit();
    return;
  }
  if (!tells && floor_.begun() > 0) return mayGoOver(held);
  const Bytes base_before = floor_.lastBaseBytes();
  const std::int64_t violations = memory().statistics().budget_violations;
  const bool more = std::exchange(violations_at_begin_, violations) < violations;
  floor_.noteTaken(figures_.usedPeakBytes());
  floor_.noteBegin(base_bytes, *budget, violations);
  if (!floor_.decided()) {
    growth_.forget();
    trained_.forgetLater();
    noteGrown(held);
    exportSmallestBudget(held);
    if (more || floor_.begun() <= kMostUndecided) to_record_.atLeast(1);
    return mayGoOver(held);
  }
  exportSmallestBudget(held);
  if (floor_.state() == BudgetFloor::State::kImpossible) return refuse(held, base_bytes);
  budget_.noteHeld();
  saySpills(held);
  sayFits(held);
  growth_.settle(steps_, base_before);  // it may be growing already
  growth_due_ = growth_.note(steps_ + 1, base_bytes);
  trained_.watchLater(steps_ + 1, base_bytes);
  // From here on what would go over the budget fails; but one that was asked for while the run went
  // on is taken back then.
  if (config_->on_infeasible == OnInfeasible::kStop && !budget_.isAsked()) trained_.refuseOverrun();
}

// Without a budget the smallest one that is told is that of the base as it is now, too: a copy of
// the weights, made late, counts in it.
void Session::measureGrowth(const Held& held, Bytes base_bytes) {
  if (std::exchange(begin_told_after_, steps_) == steps_ || steps_ < kStepsForOutlook) return;
  if (growth_.found()) {
    growth_.note(steps_ + 1, base_bytes);
  } else {
    growth_.settle(steps_, base_bytes);
  }
  noteGrown(held);
}

void Session::mayGoOver(const Held&) {
  trained_.limitOverrun();
}

// Not before the budget is decided: a refusal stands alone.
void Session::saySpills(const Held& held) {
  const bool decided = floor_.decided() || budget_.isOpen();
  if (spills_each_step_.empty() || !decided || endsForBudget(held)) return;
  if (budget_.isNew(RankBudget::Message::kSpills)) warn(spills_each_step_);
  spills_each_step_.clear();
}

// "aten::clone made 1.5 MiB in 6 blocks of 256.0 KiB after step 6 began": what came outside of
// recorded operations, where it is a good part of what more lives now. Empty: not known.
std::string Session::madeLater(Bytes more_bytes) const {
  const auto most = trained_.later().largest();
  if (!most || most->bytes * kLeastPart < more_bytes) return "";
  const std::string each = most->each_bytes > 0 ? " of " + formatBytes(most->each_bytes) : "";
  const std::string when = most->times == 1
                               ? fmt::format("after step {} began", most->step)
                               : fmt::format("{} times since step {}", most->times, most->step);
  return fmt::format("{} made {} in {} block{}{} {}", most->by, formatBytes(most->bytes),
                     most->blocks, most->blocks == 1 ? "" : "s", each, when);
}

// Of the step that was recorded for it.
void Session::sayGrowth(const BaseGrowth::Found& growth, const scheduler::Trace& trace) try {
  auto kept = scheduler::keptBlocks(trace);
  if (!kept.empty() && kept.front().bytes * 10 < growth.perStepBytes()) kept.clear();
  const bool known = !kept.empty() && kept.front().known;
  const std::string later = known ? "" : madeLater(growth.grownBytes());
  {
    const Held held = mutex_.hold();
    grown_by_ = kept.empty() || !later.empty() ? "" : kept.front().by;
  }
  const std::string made =
      !later.empty()  ? "; " + later
      : !kept.empty() ? fmt::format("; the last step kept {} more, made by {}",
                                    formatBytes(kept.front().bytes), kept.front().by)
                      : "; the last step kept little more: it came once, or comes now and then (a "
                        "second network, copies of weights, a history)";
  say(fmt::format("what lives when a step begins has grown from {} at step {} to {} at step {}{}",
                  formatBytes(growth.from_bytes), growth.from_step, formatBytes(growth.bytes),
                  growth.step, made));
} catch (const std::exception& error) {
  warn(std::string("what lives longer than a step could not be told: ") + error.what());
}

void Session::refuse(const Held& held, std::int64_t base_bytes) {
  stop_.cannotFit(refusalText(held, base_bytes));
  if (config_->on_infeasible != OnInfeasible::kStop) {
    if (budget_.isNew(RankBudget::Message::kInfeasible)) warn(overrunText(held));
    return;
  }
  // The same again, after it was let go on: nothing larger is let go on with again.
  const bool again = needs_most_first_op_ == refused_first_op_ && refused_base_bytes_ > 0;
  refused_base_bytes_ = again ? std::min(refused_base_bytes_, base_bytes) : base_bytes;
  refused_first_op_ = needs_most_first_op_;
  to_record_.atLeast(3);  // of another program, if one follows
  if (in_pipeline_ && job_.hasStore(held)) {
    stop_.stopWhenAdvised(std::chrono::steady_clock::now());
  } else {
    stop_.stopAtOnce();
  }
}

std::string Session::overrunText(const Held&) const {
  return fmt::format(
      "the budget of {} is too small for this program, which needs {}: training goes on over it, "
      "as EBBTIDE_ON_INFEASIBLE=best-effort asks. Smallest budget: EBBTIDE_BUDGET={}.{}",
      formatBytes(budget().value_or(0)), formatBytes(floor_.neededBytes()),
      asSetting(smallestBudgetBytes()), spillProblem());
}

// What is needed at least rests on spilling.
std::string Session::spillProblem() const {
  const std::string error = trained_.spills().lastError();
  return error.empty() ? "" : " Note: " + error + " (EBBTIDE_SPILL_DIR chooses another folder).";
}

// Batch-size finders (accelerate's, Lightning's) look for the words that it begins with.
std::string Session::refusalText(const Held&, std::int64_t base_bytes) const {
  return fmt::format(
      "{} the budget of {}: it is too small for this program, which needs {}.\n"
      "Smallest budget: EBBTIDE_BUDGET={}.{}\n"
      "Floor: {}. Live when a step begins (parameters, gradients, optimizer, data): {}. Saved for "
      "backward, by op: {}.\n"
      "EBBTIDE_ON_INFEASIBLE=best-effort trains on over the budget.",
      trained_.isElsewhere()
          ? "CUDA out of memory. Memory cannot be allocated within"
          : "ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory within",
      formatBytes(budget().value_or(0)), formatBytes(floor_.neededBytes()),
      asSetting(smallestBudgetBytes()), spillProblem(),
      floor_.needsMostAtStart() ? "what the program allocated before its first step" : floor_text_,
      formatBytes(base_bytes), saved_text_);
}

// The step's first op, after a refusal that the program has caught. The same program is refused
// again, at once. A first op that reads parameters alone (a cast of autocast's) is the same for
// every batch: of a smaller batch less lives when the step begins.
void Session::letGoOn(const Held& held, std::uint64_t first_op_signature) {
  if (!stop_.requested() || !stop_.raised()) return;
  const bool smaller = begun_.memory.allocated_bytes < refused_base_bytes_;
  const bool same = refused_first_op_ == 0 || first_op_signature == refused_first_op_;
  if (same && !smaller) return;
  if (same) refused_base_bytes_ = begun_.memory.allocated_bytes;
  stop_.goOn();
  beginOther(held);
  budget_.beginAnew();
  to_record_.atLeast(3);
}

}  // namespace ebbtide::plugin
