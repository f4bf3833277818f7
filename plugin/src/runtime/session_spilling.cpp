// What a Session does once values cannot be written to the host any more.
#include <fmt/format.h>

#include "runtime/session.hpp"

namespace ebbtide::plugin {

// Of the reclaimer too, which is to wait for nobody: programs are seen to by the next step.
void Session::noteSpillFailed() noexcept try {
  if (inChild() || !trained_.stopOffload()) return;
  const bool may_go_over = budget() && !trained_.isElsewhere();
  outage_.begin();
  if (may_go_over) trained_.limitOverrun();
  warn(fmt::format(
      "{}. Plans write no more values to the host; they are computed again instead{}{}",
      spills().lastError(),
      may_go_over ? ", and steps may go over the budget until a plan for that is used" : "",
      trained_.isElsewhere() ? ""
                             : ". Make room there, or name another folder: EBBTIDE_SPILL_DIR"));
} catch (...) {
  return;  // no memory for the words
}

void Session::warnOfUnreadSpills(std::int64_t bytes, const std::string& op) {
  if (said_unread_.exchange(true)) return;
  warn(
      fmt::format("each step leaves spilled values behind that nothing reads: {} on the host by "
                  "now, mostly made by {}. A graph without a backward pass keeps them, as "
                  "total += loss does: add loss.item() or loss.detach() instead",
                  formatBytes(bytes), op));
}

// Steps that begin now follow no plan that counts on the host.
void Session::takeOutage(const Held&) {
  if (!outage_.take()) return;
  programs_.dropPlans([](const Plan& plan) { return plan.host_fetches > 0 || !plan.feasible; });
  to_record_.atLeast(3);
}

// A step that is about to run follows this plan, nullptr: none. Nothing can be
// spilled of what it cannot compute again, of the originals of a rehearsal, or of what a plan that
// was made for an earlier step leaves over. A plan that a step has held the budget under has to.
void Session::allowOverrunFor(const Held& held, const Plan* plan) {
  const RankBudget& of_rank = budget_.ofRank(held);
  const bool may_go = of_rank.isAsked() || of_rank.isResumed();
  if (!outage_.awaitsPlan() || may_go || config_->on_infeasible != OnInfeasible::kStop) return;
  if (!budget() || trained_.isElsewhere()) return;
  const auto known = plan != nullptr ? programs_.find(plan->signature) : programs_.end();
  const bool proved = known != programs_.end() && known->second.held_plan.get() == plan;
  if (proved)
    trained_.refuseOverrun();
  else
    trained_.limitOverrun();
}

// A step is over.
void Session::judgeOutage(const Held& held, const StepSummary& summary,
                          const allocator::Statistics& memory) {
  if (!outage_.awaitsPlan()) return;
  const bool within = memory.budget_violations == begun_.memory.budget_violations;
  const bool planned = summary.trusted && !summary.off_plan && summary.plan->feasible &&
                       summary.plan->host_fetches == 0;
  budget_.verdict().countFrom(held, memory.budget_violations);
  if (within && planned) programs_[summary.plan->signature].held_plan = summary.plan;
  if (outage_.endStep(within && planned)) endOutage(held);
}

// What went over the budget until now tells nothing of it.
void Session::endOutage(const Held& held) {
  budget_.verdict().judgeFromNowOn(held);
  budget_.verdict().mayGoOver(held);  // until they have decided
}

}  // namespace ebbtide::plugin
