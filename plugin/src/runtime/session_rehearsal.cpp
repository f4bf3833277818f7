// What a Session does about rehearsals: plans that are trusted after them, and programs that are
// planned anew.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

constexpr int kPartialRehearsals = 3;  // then the program is recorded and planned anew

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

}  // namespace

void Session::planWithoutRejected() {
  const Held held = mutex_.hold();
  // Without them: so it is another plan each time, and the ops are finite.
  const auto rejects = [this](const Plan& plan) { return replay_trust_.rejects(plan); };
  if (programs_.dropPlans(rejects)) to_record_.atLeast(2);
}

void Session::rehearsed(const Plan& plan, bool whole) {
  replay_trust_.noteRehearsal();
  const Held held = mutex_.hold();
  const auto program = programs_.find(plan.signature);
  if (program == programs_.end() || program->second.plan.get() != &plan) return;
  Program& known = program->second;
  if (replay_trust_.rejects(plan)) return;  // by another step, just now: the plan is about to go
  if (whole) {
    known.noteRehearsed(plan);
    known.plan->trusted = true;
    return;
  }
  // Part of the backward pass that the plan counts on did not run: nothing is trusted yet.
  if (++known.partial_rehearsals % kPartialRehearsals == 0) planAnew(held, known);
}

void Session::planAnew(const Held&, Program& known) {
  known.plan = known.later_plan = nullptr;
  known.askAgain();
  to_record_.atLeast(2);
}

// Memory may be there, or the plan another one, next time. If not, in a few: what does not fit is
// spilled.
void Session::rehearsalFailed(const Plan& plan, const std::string& why) {
  const Held held = mutex_.hold();
  const auto program = programs_.find(plan.signature);
  if (program == programs_.end() || program->second.plan.get() != &plan) return;
  planAnew(held, program->second);
  if (!program->second.replan)
    warn("no plan could be rehearsed, values are spilled instead: " + why);
}

// Where no originals can be spilled no plan can be rehearsed: one that replays only what has been
// compared is taken, unless its peak is higher.
void Session::preferCompared(const scheduler::Trace& trace, bool first_step, std::int64_t cap,
                             Planned& planned) const {
  if (!outage_.began()) return;
  scheduler::Trace compared = trace;
  bool any = false;
  {
    const Held held = mutex_.hold();
    const auto known = programs_.find(trace.signature);
    if (known == programs_.end()) return;
    for (std::size_t op = 0; op < compared.ops.size(); ++op) {
      const bool was = known->second.compared.contains(static_cast<OpId>(op));
      compared.ops[op].rerunnable = compared.ops[op].rerunnable && was;
      any = any || was;
    }
  }
  if (!any || replaysOnly(compared, planned.step, planned.result.schedule)) return;
  Planned other =
      search_.best(compared, scheduler::buildGraph(compared, {.first_step = first_step}), cap);
  const bool higher = other.simulated.peak_bytes > std::max(cap, planned.simulated.peak_bytes);
  const std::int64_t longer = other.simulated.recompute_ns - planned.simulated.recompute_ns;
  debug(fmt::format("a plan of replays that were compared before: {} peak, {:.1f} ms longer",
                    higher ? "higher" : "no higher", static_cast<double>(longer) * 1e-6));
  if (!higher) planned = std::move(other);
}

}  // namespace ebbtide::plugin
