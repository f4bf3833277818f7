#include "verify/replay_trust.hpp"

#include <fmt/format.h>

#include <utility>

namespace ebbtide::plugin {

ReplayTrust::ReplayTrust(metrics::RankMetrics& metrics, Owner owner)
    : metrics_(metrics), owner_(std::move(owner)) {}

void ReplayTrust::noteCompared(const std::string& op, std::uint64_t signature, bool equal) {
  {
    const std::lock_guard lock(mutex_);
    if (equal)
      findings_.addEqual(op);
    else
      findings_.addDiffering(op, signature);
  }
  if (equal)
    metrics_.add(metrics::Counter::kAudits, 1);
  else
    reject(op, signature, "it does not repeat bit for bit");
}

void ReplayTrust::reject(const std::string& op, std::uint64_t signature, const std::string& why) {
  reject({{op, signature}}, why);
}

void ReplayTrust::reject(const std::vector<Replay>& replays, const std::string& why) {
  if (replays.empty()) return;
  std::size_t newly_rejected = 0;
  std::vector<std::string> names;  // no line has named them yet
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [op, signature] : replays) {
      newly_rejected += findings_.reject(op, signature) ? 1 : 0;
      if (findings_.takeSaying(op)) names.push_back(op);
    }
  }
  owner_.plan_without_rejected();  // before a line is written, which may take long, or fail
  metrics_.add(metrics::Counter::kAuditFailures, static_cast<double>(newly_rejected));
  if (names.empty()) return;
  const std::string more =
      names.size() > 1 ? fmt::format(" and {} other operations", names.size() - 1) : "";
  owner_.warn(fmt::format("the results of {}{} are kept, not computed again: {}", names.front(),
                          more, why));
}

void ReplayTrust::distrust(const std::string& op) {
  {
    const std::lock_guard lock(mutex_);
    if (!findings_.distrust(op)) return;
  }
  owner_.plan_without_rejected();
  owner_.debug(fmt::format("no call of {} is run again: it does not repeat", op));
}

void ReplayTrust::noteUnwritten(const std::string& op) {
  const std::lock_guard lock(mutex_);
  findings_.addUnwritten(op);
}

void ReplayTrust::noteVerificationStep() {
  ++verification_steps_;
  metrics_.add(metrics::Counter::kVerificationSteps, 1);
}

bool ReplayTrust::hasRejected(const std::string& op) const {
  if (!findings_.anyRejected()) return false;
  const std::lock_guard lock(mutex_);
  return findings_.rejectsName(op);
}

bool ReplayTrust::distrusts(const std::string& op) const {
  if (!findings_.anyDistrusted()) return false;
  const std::lock_guard lock(mutex_);
  return findings_.distrusts(op);
}

bool ReplayTrust::leavesUnwritten(const std::string& op) const {
  if (!findings_.anyUnwritten()) return false;
  const std::lock_guard lock(mutex_);
  return findings_.leavesUnwritten(op);
}

bool ReplayTrust::rejects(const Plan& plan) const {
  const std::lock_guard lock(mutex_);
  return findings_.rejects(plan);
}

void ReplayTrust::keepRejected(scheduler::Trace& trace) const {
  const std::lock_guard lock(mutex_);
  for (scheduler::TraceOp& op : trace.ops) {
    if (!op.rerunnable) continue;
    if (!findings_.rejects(op.signature) && !findings_.distrusts(op.name)) continue;
    op.rerunnable = false;
    op.kept_because = "gave other results when it was run again";
  }
}

ReplayTrust::Counts ReplayTrust::equalReplays() const {
  const std::lock_guard lock(mutex_);
  return findings_.equal();
}

ReplayTrust::Counts ReplayTrust::rejectedReplays() const {
  const std::lock_guard lock(mutex_);
  return findings_.rejected();
}

}  // namespace ebbtide::plugin
