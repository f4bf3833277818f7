#include "verify/replay_trust.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <iterator>
#include <set>
#include <utility>

namespace ebbtide::plugin {
namespace {

constexpr std::size_t kMostNamed = 8;  // ops in a line; the others are named when one differs again

const char* whyDiffering(ReplayTrust::SecondReplay second) {
  switch (second) {
    case ReplayTrust::SecondReplay::kAgrees:
      return "something that Ebbtide did not see wrote into what it gave, or into what it reads";
    case ReplayTrust::SecondReplay::kDiffers:
      return "it does not repeat bit for bit";
    case ReplayTrust::SecondReplay::kNone:
      break;
  }
  return "it gave other results";
}

// "a", "a and b", "a, b and c", "a, b and 2 other operations".
std::string listed(const std::vector<std::string>& names, std::size_t others) {
  if (others > 0) {
    return fmt::format("{} and {} other operation{}", fmt::join(names, ", "), others,
                       others > 1 ? "s" : "");
  }
  if (names.size() == 1) return names.front();
  return fmt::format("{} and {}", fmt::join(names.begin(), std::prev(names.end()), ", "),
                     names.back());
}

}  // namespace

ReplayTrust::ReplayTrust(metrics::RankMetrics& metrics, Owner owner)
    : metrics_(metrics), owner_(std::move(owner)) {}

void ReplayTrust::noteCompared(const std::string& op, std::uint64_t signature, bool equal,
                               SecondReplay second) {
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
    reject(op, signature, whyDiffering(second));
}

void ReplayTrust::reject(const std::string& op, std::uint64_t signature, const std::string& why) {
  reject({{op, signature}}, why);
}

void ReplayTrust::reject(const std::vector<Replay>& replays, const std::string& why) {
  if (replays.empty()) return;
  std::size_t newly_rejected = 0;
  std::vector<std::string> names;  // no line has named them yet
  std::set<std::string> others;    // and none will now
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [op, signature] : replays) {
      newly_rejected += findings_.reject(op, signature) ? 1 : 0;
      if (names.size() == kMostNamed) {
        if (!findings_.isSaid(op)) others.insert(op);
      } else if (findings_.takeSaying(op)) {
        names.push_back(op);
      }
    }
  }
  owner_.plan_without_rejected();  // before a line is written, which may take long, or fail
  metrics_.add(metrics::Counter::kAuditFailures, static_cast<double>(newly_rejected));
  if (names.empty()) return;
  owner_.warn(fmt::format("the results of {} are kept, not computed again: {}",
                          listed(names, others.size()), why));
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
