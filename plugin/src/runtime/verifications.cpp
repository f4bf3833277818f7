#include "runtime/verifications.hpp"

#include <fmt/format.h>

namespace ebbtide::plugin {
namespace {

constexpr int kPartialVerifications = 3;  // then the program is recorded and planned anew

}  // namespace

void Verifications::planWithoutRejected() {
  const Held held = guard().hold();
  // Without them: so it is another plan each time, and the ops are finite.
  const auto rejects = [this](const Plan& plan) { return parts_.trust.rejects(plan); };
  if (const auto& first = parts_.planning.improved(held); first && rejects(*first))
    parts_.planning.cut(held);
  if (parts_.steps.programs.dropPlans(rejects)) parts_.steps.to_record.atLeast(2);
}

void Verifications::verified(const Plan& plan, bool whole) {
  parts_.trust.noteVerificationStep();
  const Held held = guard().hold();
  const auto program = parts_.steps.programs.find(plan.signature);
  if (program == parts_.steps.programs.end()) return;
  Program& known = program->second;
  if (parts_.trust.rejects(plan)) return;  // by another step, just now: the plan is about to go
  // A better plan may have taken its place since the step began: what was compared was.
  if (whole) known.noteVerified(plan);
  if (known.in_force.plan == nullptr) return;
  // Another one: an op of it alone may have been rejected just now.
  if (whole && known.hasCompared(*known.in_force.plan) &&
      !parts_.trust.rejects(*known.in_force.plan))
    known.in_force.plan->trusted = true;
  if (whole || known.in_force.plan.get() != &plan) return;
  // Part of the backward pass that the plan counts on did not run: nothing is trusted yet.
  if (++known.verifications.partial % kPartialVerifications == 0) planAnew(held, known);
}

// A first plan that fails says nothing of what a search finds, and takes none of its turns. Where
// one is under way, what that finds takes its place.
void Verifications::planAnew(const Held& held, Program& known) {
  const bool first = known.in_force.isFirst();
  const bool searched =
      first && parts_.planning.improved(held) == known.in_force.plan && !parts_.planning.isCut();
  known.dropPlan();
  ++known.verifications.failed;
  if (searched) {
    known.planning.awaits_search = true;
    parts_.planning.need(held);
  } else if (first) {
    known.askUncounted();
  } else {
    known.askAgain();
  }
  parts_.steps.to_record.atLeast(2);
}

// What a verification step takes beside the step, for originals and replays at once, is no need of
// the program: while steps may go over the budget to find that out, it may not. One that was asked
// for is taken back by any step that goes over it.
bool Verifications::keepsWithinBudget() const {
  const Held held = guard().hold();
  const bool undecided = !parts_.budget.verdict().decided(held);
  const bool is_judged =
      parts_.budget.ofRank(held).isAsked() ||
      (undecided && parts_.budget.run().config->planning.on_infeasible == OnInfeasible::kStop);
  return parts_.budget.bytes() && is_judged && !parts_.budget.isOpen(held) &&
         !parts_.outage.state().awaitsPlan();
}

// Memory may be there, or the plan another one, next time. If not, in a few.
void Verifications::failed(const Plan& plan, const std::string& why) {
  const Held held = guard().hold();
  const auto program = parts_.steps.programs.find(plan.signature);
  if (program == parts_.steps.programs.end() || program->second.in_force.plan.get() != &plan)
    return;
  planAnew(held, program->second);
  if (!program->second.planning.replan && !program->second.planning.awaits_search)
    parts_.warn(fmt::format("no plan could be verified, {}: {}", parts_.outage.withoutPlan(), why));
}

}  // namespace ebbtide::plugin
