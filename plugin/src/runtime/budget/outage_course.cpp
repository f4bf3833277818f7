#include "runtime/budget/outage_course.hpp"

#include <fmt/format.h>

#include "runtime/run/run_life.hpp"

namespace ebbtide::plugin {
namespace {

// On a plan that writes nothing, to its end.
bool followed(const StepSummary& summary) {
  return summary.trusted && !summary.off_plan && summary.plan->predicted.host_fetches == 0;
}

}  // namespace

// Programs are seen to by the next step.
void OutageCourse::begin() noexcept try {
  if (RunLife::inChild()) return;
  TrainedMemory& trained = run().trained;
  if (!trained.stopOffload()) return;
  const bool may_go_over = trained.budgetBytes() && !trained.isElsewhere();
  state_.begin();
  if (may_go_over) trained.limitOverrun();
  run().warn(fmt::format(
      "{}. Plans write no more values to the host; they are computed again instead{}{}",
      trained.spills().lastError(),
      may_go_over ? ", and steps may go over the budget until a plan for that is used" : "",
      trained.isElsewhere() ? "" : ". Make room there, or name another folder: EBBTIDE_SPILL_DIR"));
} catch (...) {
  return;  // no memory for the words
}

void OutageCourse::warnOfUnread(std::int64_t bytes, const std::string& op) {
  if (said_unread_.exchange(true)) return;
  run().warn(
      fmt::format("steps leave spilled values behind that nothing reads: {} on the host by now, "
                  "mostly made by {}. A graph without a backward pass keeps them, as "
                  "total += loss does: add loss.item() or loss.detach() instead",
                  formatBytes(bytes), op));
}

bool OutageCourse::take(const Held&) {
  if (!state_.take()) return false;
  run().programs.dropPlans(
      [](const Plan& plan) { return plan.predicted.host_fetches > 0 || !plan.feasible; });
  run().to_record.atLeast(3);
  return true;
}

// Nothing can be spilled of what it cannot compute again, of the originals of a verification step,
// or of what a plan that was made for an earlier step leaves over. A plan that a step has held the
// budget under has to.
void OutageCourse::allowOverrunFor(const Held& held, const Plan* plan) {
  const RankBudget& of_rank = budget_.ofRank(held);
  const bool may_go = of_rank.isAsked() || of_rank.isResumed();
  if (!state_.awaitsPlan() || may_go || run().config->planning.on_infeasible != OnInfeasible::kStop)
    return;
  TrainedMemory& trained = run().trained;
  if (!trained.budgetBytes() || trained.isElsewhere()) return;
  const ProgramTable& programs = run().programs;
  const auto known = plan != nullptr ? programs.find(plan->signature) : programs.end();
  const bool proved = known != programs.end() && known->second.held_plan.get() == plan;
  if (proved)
    trained.refuseOverrun();
  else
    trained.limitOverrun();
}

// Steps without a plan take nearly all that plain ones do: where none fits, those that follow the
// best one tell what a budget needs. They may do with less than is foreseen, as they drop more
// under pressure; in a budget that holds the plan there is none.
void OutageCourse::endStep(const Held& held, const EndedStep& step) {
  if (!state_.awaitsPlan()) return;
  const auto& [summary, begun, memory, planning] = step;
  const bool within = memory.budget_violations == begun.budget_violations;
  const bool held_it = followed(summary) && within && summary.plan->feasible;
  const auto kept = within ? SpillOutage::Step::kOther : SpillOutage::Step::kWentOver;
  budget_.verdict().countFrom(held, memory.budget_violations);
  if (held_it) run().programs[summary.plan->signature].held_plan = summary.plan;
  if (showsNeed(step) && state_.giveUp()) {
    end(held);
    budget_.verdict().noteLeast(held,
                                summary.plan->predicted.peak_bytes + run().trained.unplannedBytes(),
                                begun.allocated_bytes);
  } else if (state_.endStep(held_it ? SpillOutage::Step::kHeld : kept)) {
    end(held);
  }
}

// One that is made anew would have to be verified while the budget is judged, without the room.
bool OutageCourse::showsNeed(const EndedStep& step) const {
  if (step.planning || !followed(step.summary) || step.summary.plan->feasible) return false;
  const auto known = run().programs.find(step.summary.plan->signature);
  if (known == run().programs.end() || known->second.in_force.plan != step.summary.plan)
    return false;
  return !known->second.planning.from_first_step && !known->second.planning.replan;
}

// What went over the budget until now tells nothing of it.
void OutageCourse::end(const Held& held) {
  budget_.verdict().judgeFromNowOn(held);
  budget_.verdict().mayGoOver(held);  // until they have decided
}

}  // namespace ebbtide::plugin
