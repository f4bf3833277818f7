// What a Session knows of replays that were verified in rehearsals, and what follows from them for
// plans.
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

void Session::countAudit(const std::string& op, std::uint64_t signature, bool equal) {
  if (!equal) {
    {
      std::lock_guard lock(mutex_);
      findings_.addDiffering(op, signature);
    }
    rejectReplay(op, signature, "it does not repeat bit for bit");
    return;
  }
  metrics_.add(metrics::Counter::kAudits, 1);
  std::lock_guard lock(mutex_);
  findings_.addEqual(op);
}

void Session::rejectReplay(const std::string& op, std::uint64_t signature, const std::string& why) {
  rejectReplays({{op, signature}}, why);
}

void Session::rejectReplays(const std::vector<Replayed>& ops, const std::string& why) {
  if (ops.empty()) return;
  std::lock_guard lock(mutex_);
  std::size_t others = 0;
  for (const auto& [op, signature] : ops) others += findings_.reject(op, signature) ? 1 : 0;
  metrics_.add(metrics::Counter::kAuditFailures, static_cast<double>(others));
  std::vector<std::string> names;  // of which nothing has been said
  for (const auto& [op, signature] : ops) {
    if (findings_.takeSaying(op)) names.push_back(op);
  }
  if (!names.empty()) {
    const std::string more =
        names.size() > 1 ? fmt::format(" and {} other operations", names.size() - 1) : "";
    warn(fmt::format("the results of {}{} are kept, not computed again: {}", names.front(), more,
                     why));
  }
  planWithoutRejected();
}

// Called with mutex_ held.
void Session::planWithoutRejected() {
  for (auto& [program, known] : programs_) {
    const auto rejects = [this](const auto& plan) { return plan && findings_.rejects(*plan); };
    if (!rejects(known.plan) && !rejects(known.later_plan)) continue;
    if (rejects(known.plan)) known.plan = nullptr;
    known.later_plan = nullptr;
    known.replan = true;  // without it: so it is another plan each time, and the ops are finite
    to_record_.atLeast(2);
  }
}

bool Session::hasRejected(const std::string& op) const {
  if (!findings_.anyRejected()) return false;
  std::lock_guard lock(mutex_);
  return findings_.rejectsName(op);
}

void Session::distrustName(const std::string& op) {
  std::lock_guard lock(mutex_);
  if (!findings_.distrust(op)) return;
  debug(fmt::format("no call of {} is run again: it does not repeat", op));
  planWithoutRejected();
}

bool Session::distrusts(const std::string& op) const {
  if (!findings_.anyDistrusted()) return false;
  std::lock_guard lock(mutex_);
  return findings_.distrusts(op);
}

void Session::noteUnwritten(const std::string& op) {
  std::lock_guard lock(mutex_);
  findings_.addUnwritten(op);
}

bool Session::leavesUnwritten(const std::string& op) const {
  if (!findings_.anyUnwritten()) return false;
  std::lock_guard lock(mutex_);
  return findings_.leavesUnwritten(op);
}

void Session::rehearsed(const Plan& plan, bool whole) {
  std::lock_guard lock(mutex_);
  ++rehearsed_steps_;
  metrics_.add(metrics::Counter::kRehearsedSteps, 1);
  const auto program = programs_.find(plan.signature);
  if (program == programs_.end() || program->second.plan.get() != &plan) return;
  Program& known = program->second;
  if (whole) {
    known.noteCompared(plan);
    known.plan->trusted = true;
    return;
  }
  // Part of the backward pass that the plan counts on did not run: nothing is trusted yet.
  if (++known.partial_rehearsals % kPartialRehearsals == 0) planAnew(known);
}

// Called with mutex_ held.
void Session::planAnew(Program& known) {
  known.plan = known.later_plan = nullptr;
  known.askAgain();
  to_record_.atLeast(2);
}

// Memory may be there, or the plan another one, next time. If not, in a few: what does not fit is
// spilled.
void Session::rehearsalFailed(const Plan& plan, const std::string& why) {
  std::lock_guard lock(mutex_);
  const auto program = programs_.find(plan.signature);
  if (program == programs_.end() || program->second.plan.get() != &plan) return;
  planAnew(program->second);
  if (!program->second.replan)
    warn("no plan could be rehearsed, values are spilled instead: " + why);
}

// Called with mutex_ held, before the program's ops are planned.
void Session::keepRejected(scheduler::Trace& trace) const {
  for (scheduler::TraceOp& op : trace.ops) {
    if (!op.rerunnable) continue;
    if (!findings_.rejects(op.signature) && !findings_.distrusts(op.name)) continue;
    op.rerunnable = false;
    op.kept_because = "gave other results when it was run again";
  }
}

// Where no originals can be spilled no plan can be rehearsed: one that replays only what has been
// compared is taken, unless its peak is higher.
void Session::preferCompared(const scheduler::Trace& trace, bool first_step, std::int64_t cap,
                             Planned& planned) const {
  if (!outage_.began()) return;
  scheduler::Trace compared = trace;
  bool any = false;
  {
    std::lock_guard lock(mutex_);
    const auto known = programs_.find(trace.signature);
    if (known == programs_.end()) return;
    for (std::size_t op = 0; op < compared.ops.size(); ++op) {
      const bool was = known->second.verified.contains(static_cast<OpId>(op));
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
