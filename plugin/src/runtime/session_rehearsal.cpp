// What a Session does about rehearsals: plans that are trusted after them, and programs that are
// planned anew.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

constexpr int kPartialRehearsals = 3;  // then the program is recorded and planned anew

}  // namespace

void Session::planWithoutRejected() {
  const Held held = mutex_.hold();
  // Without them: so it is another plan each time, and the ops are finite.
  const auto rejects = [this](const Plan& plan) { return replay_trust_.rejects(plan); };
  if (const auto& first = planning_.improved(held); first && rejects(*first)) planning_.cut(held);
  if (programs_.dropPlans(rejects)) to_record_.atLeast(2);
}

void Session::rehearsed(const Plan& plan, bool whole) {
  replay_trust_.noteRehearsal();
  const Held held = mutex_.hold();
  const auto program = programs_.find(plan.signature);
  if (program == programs_.end()) return;
  Program& known = program->second;
  if (replay_trust_.rejects(plan)) return;  // by another step, just now: the plan is about to go
  // A better plan may have taken its place since the step began: what was compared was.
  if (whole) known.noteRehearsed(plan);
  if (known.plan == nullptr) return;
  // Another one: an op of it alone may have been rejected just now.
  if (whole && known.hasCompared(*known.plan) && !replay_trust_.rejects(*known.plan))
    known.plan->trusted = true;
  if (whole || known.plan.get() != &plan) return;
  // Part of the backward pass that the plan counts on did not run: nothing is trusted yet.
  if (++known.partial_rehearsals % kPartialRehearsals == 0) planAnew(held, known);
}

// A first plan that fails says nothing of what a search finds, and takes none of its turns. Where
// one is under way, what that finds takes its place.
void Session::planAnew(const Held& held, Program& known) {
  const bool first = known.first.is(known.plan);
  const bool searched = first && planning_.improved(held) == known.plan && !planning_.isCut();
  known.dropPlan();
  ++known.failed_rehearsals;
  if (searched) {
    known.awaits_search = true;
    planning_.need(held);
  } else if (first) {
    known.replan = true;
  } else {
    known.askAgain();
  }
  to_record_.atLeast(2);
}

// What a rehearsal takes beside the step, for originals and replays at once, is no need of the
// program: while steps may go over the budget to find that out, it may not. One that was asked for
// is taken back by any step that goes over it.
bool Session::rehearsesWithinBudget() const {
  const Held held = mutex_.hold();
  const bool undecided = !budget_.verdict().decided(held);
  const bool is_judged = budget_.ofRank(held).isAsked() ||
                         (undecided && config_->on_infeasible == OnInfeasible::kStop);
  return budget() && is_judged && !budget_.isOpen(held) && !outage_.state().awaitsPlan();
}

// Memory may be there, or the plan another one, next time. If not, in a few: what does not fit is
// spilled.
void Session::rehearsalFailed(const Plan& plan, const std::string& why) {
  const Held held = mutex_.hold();
  const auto program = programs_.find(plan.signature);
  if (program == programs_.end() || program->second.plan.get() != &plan) return;
  planAnew(held, program->second);
  if (!program->second.replan && !program->second.awaits_search)
    warn("no plan could be rehearsed, values are spilled instead: " + why);
}

}  // namespace ebbtide::plugin
