// What a Session knows of replays: audits of this process's rehearsals and of earlier ones, and
// what follows from them for plans.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/session.hpp"

namespace ebbtide::plugin {
namespace {

constexpr int kPartialRehearsals = 3;  // then the program is recorded and planned anew

// Of the step's time, what a plan may take more to need no rehearsal: one part of so many. That of
// the first step is soon replaced.
constexpr std::int64_t kHardlyMore = 100;
constexpr std::int64_t kSomeMore = 4;

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

void Session::openAuditCache(int threads) {
  // Its keys say nothing of a GPU, nor of its driver and libraries.
  if (config_->audit_cache_dir.empty() || trained_.isElsewhere()) return;
  if (!budget() && !budget_.isOfStage()) return;
  host_.threads = threads;
  audits_ = std::make_unique<AuditCache>(
      AuditCache::Folder{config_->audit_cache_dir, config_->audit_cache_asked_for}, host_,
      [this](const std::string& text) { warn(text); });
}

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

void Session::noteUnsteady(AuditKey op) {
  if (audits_) audits_->addDiffers(op);
}

// The next process rehearses the program again: it does something today that its rehearsal did not.
void Session::distrust(const Plan& plan) noexcept try {
  if (!audits_ || inChild()) return;
  audits_->forget(plan.signature);
  audits_->save();
} catch (const std::exception&) {
  return;  // no memory: what is known stays
}

void Session::rehearsed(const Plan& plan, bool whole, const std::vector<AuditKey>& audit_keys) {
  noteRehearsal(plan, whole, audit_keys);
  std::lock_guard lock(mutex_);
  ++rehearsed_steps_;
  metrics_.add(metrics::Counter::kRehearsedSteps, 1);
  const auto program = programs_.find(plan.signature);
  if (program == programs_.end() || program->second.plan.get() != &plan) return;
  Program& known = program->second;
  if (whole) {
    known.noteCompared(plan);
    ++known.plan->trials;
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

// For later processes. That a replay failed is not kept: it may have been short of memory.
void Session::noteRehearsal(const Plan& plan, bool whole, const std::vector<AuditKey>& audit_keys) {
  if (!audits_ || audit_keys.size() < plan.replayed.size()) return;
  std::vector<std::uint64_t> equal;
  for (std::size_t op = 0; op < plan.replayed.size(); ++op) {
    if (!plan.replayed[op]) continue;
    const std::uint64_t place = auditPlace(op, audit_keys[op]);
    std::lock_guard lock(mutex_);
    if (findings_.differs(plan.op_signatures[op])) {
      audits_->addKept(plan.signature, place);
    } else if (whole && !findings_.leavesUnwritten(plan.replayed_name[op])) {
      equal.push_back(place);
    }
  }
  audits_->addEqual(plan.signature, equal);
  audits_->save();
}

// Called with mutex_ held, before the program's ops are planned.
void Session::keepRejected(scheduler::Trace& trace) {
  const auto known = programs_.find(trace.signature);
  if (known == programs_.end()) return;  // forgotten meanwhile, and not planned
  const std::vector<AuditKey>& keys = known->second.audit_keys;
  bool keeps = false;
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    scheduler::TraceOp& op = trace.ops[i];
    if (!op.rerunnable) continue;
    const AuditKey key = i < keys.size() ? keys[i] : 0;
    const bool differs = audits_ && audits_->differs(key);
    const bool kept = audits_ && audits_->kept(trace.signature, auditPlace(i, key));
    if ((differs || kept) && findings_.rejectAsBefore(op.name, op.signature)) {
      keeps = keeps || kept;
      debug(fmt::format("the results of {} are kept: it gave other ones in an earlier process",
                        op.name));
    }
    if (!findings_.rejects(op.signature) && !findings_.distrusts(op.name)) continue;
    op.rerunnable = false;
    op.kept_because = "gave other results when it was run again";
  }
  if (keeps) audits_->countKeeping(trace.signature);
}

// Called with mutex_ held. At this place of the program, in an earlier process.
bool Session::comparedBefore(std::uint64_t program, std::size_t op) const {
  const auto known = programs_.find(program);
  if (!audits_ || known == programs_.end() || op >= known->second.audit_keys.size()) return false;
  return audits_->equal(program, auditPlace(op, known->second.audit_keys[op]));
}

// Durations differ a little from process to process, and plans with them. One that replays only
// what has been compared spares the rehearsal, and is taken where it costs hardly more time.
void Session::preferRehearsed(const scheduler::Trace& trace, bool first_step, std::int64_t cap,
                              Planned& planned) const {
  const bool no_rehearsal = outage_.began();  // its originals could not be spilled
  if (!audits_ && !no_rehearsal) return;
  scheduler::Trace compared = trace;
  bool any = false;
  {
    std::lock_guard lock(mutex_);
    const auto known = programs_.find(trace.signature);
    if (known == programs_.end()) return;
    for (std::size_t op = 0; op < compared.ops.size(); ++op) {
      const bool was = known->second.verified.contains(static_cast<OpId>(op)) ||
                       comparedBefore(trace.signature, op);
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
  const std::int64_t allowed = trace.duration_ns / (first_step ? kSomeMore : kHardlyMore);
  if (!higher && (longer <= allowed || no_rehearsal)) planned = std::move(other);
}

// Called with mutex_ held. Were all of the plan's replays compared, here or in an earlier process,
// in this program?
bool Session::rehearsedBefore(const scheduler::Trace& trace, Plan& plan) {
  Program& known = programs_[trace.signature];
  std::vector<OpId> from_cache;
  for (std::size_t op = 0; op < plan.replayed.size(); ++op) {
    if (!plan.replayed[op] || known.verified.contains(static_cast<OpId>(op))) continue;
    if (!comparedBefore(trace.signature, op)) return false;
    from_cache.push_back(static_cast<OpId>(op));
  }
  if (from_cache.empty()) return true;
  plan.proven = false;
  for (const OpId op : from_cache) {
    if (known.from_cache.insert(op).second) findings_.addEqualBefore(trace.ops[op].name);
  }
  debug(fmt::format("{} replays are trusted: they were compared in an earlier process ({})",
                    from_cache.size(), audits_->path()));
  return true;
}

}  // namespace ebbtide::plugin
