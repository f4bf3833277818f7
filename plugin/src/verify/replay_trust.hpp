// ReplayTrust: what this process knows of replays since it compared them with their originals: ops
// that are rejected, names that are distrusted, ops that leave bytes unwritten, and how many there
// were of each. Owns the findings; whoever owns plans is told when some may have to go.
//
// Lock order: StepRun's lock, Session's, this one, which guards the findings and is held while they
// are read or written, never while somebody is called. So Session may ask with its lock held, but
// whoever holds it may add nothing: what is added calls the owner of plans, who takes it. Session
// asks rejects() and publishes or trusts a plan under one hold of its lock: either it finds there
// that an op was rejected meanwhile, or the owner finds the plan. The owner is told of plans first,
// and of lines then: they may wait for whoever reads stderr. Thread rule: any thread. Torch-free.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "ebbtide/metrics/rank_metrics.hpp"
#include "verify/replay_findings.hpp"

namespace ebbtide::plugin {

class ReplayTrust {
 public:
  using Counts = ReplayFindings::Counts;
  struct Replay {
    std::string op;
    std::uint64_t signature = 0;
  };
  // What an op gave when it ran again once more, from the same inputs: kNone: it did not.
  enum class SecondReplay : std::uint8_t { kNone, kAgrees, kDiffers };
  struct Owner {  // of plans
    // Plans that rejects() is true of go, and their programs are planned anew.
    std::function<void()> plan_without_rejected;
    std::function<void(const std::string&)> warn, debug;  // one line each
  };

  ReplayTrust(metrics::RankMetrics& metrics, Owner owner);

  // --- what replays find
  void noteCompared(const std::string& op, std::uint64_t signature, bool equal,
                    SecondReplay second = SecondReplay::kNone);
  void reject(const std::string& op, std::uint64_t signature, const std::string& why);
  void reject(const std::vector<Replay>& replays, const std::string& why);
  // It gave other results in a trusted step, or twice from the same inputs.
  void distrust(const std::string& op);
  // It leaves bytes of its results unwritten: its memory is filled before it runs, each time.
  void noteUnwritten(const std::string& op);
  void noteVerificationStep();  // a step that was one is over

  // --- what follows
  // Has a replay of such an op differed, in whatever step of this process?
  bool hasRejected(const std::string& op) const;
  bool distrusts(const std::string& op) const;
  bool leavesUnwritten(const std::string& op) const;
  bool rejects(const Plan& plan) const;  // something that it replays
  // Before its ops are planned: those that are not to run again are kept.
  void keepRejected(scheduler::Trace& trace) const;

  // --- counts
  Counts equalReplays() const;
  Counts rejectedReplays() const;
  std::int64_t verificationSteps() const noexcept { return verification_steps_; }

  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

 private:
  metrics::RankMetrics& metrics_;
  const Owner owner_;
  std::atomic<std::int64_t> verification_steps_{0};
  mutable std::mutex mutex_;
  ReplayFindings findings_;
};

}  // namespace ebbtide::plugin
