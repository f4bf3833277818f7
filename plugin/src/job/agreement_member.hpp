// AgreementMember: what each rank does in a round of JobAgreement, rank 0 too. Torch-free.
//
//   away ── round announced, own report there ──► reported ── plan, prepared ──► answered
//     ▲                                              │                              │ begin: commit
//     └───────────── keep, or no word in time ◄──────┴──────────────────────────────┘ keep
#pragma once

#include <optional>
#include <string>

#include "job/job_agreement.hpp"
#include "job/job_round.hpp"

namespace ebbtide::plugin {

class AgreementMember {
 public:
  using Time = JobAgreement::Time;
  // All outlive it. `leader`: on rank 0, whose plan is not read again.
  AgreementMember(std::int32_t rank, std::int32_t size, const JobCallbacks& callbacks,
                  JobAgreement::Options options, const AgreementLeader* leader);

  void report(std::string document);
  void withdraw() { document_.clear(); }
  // From the first report on. Throws what the store throws.
  void look(JobStore& store, Time now, JobProgress progress);
  Time nextLook() const noexcept { return next_look_; }
  bool hasReport() const noexcept { return !document_.empty(); }
  // It waits for rank 0's word, or for the first round.
  bool waits() const noexcept { return phase_ != Phase::kAway || round_.number == 0; }

 private:
  enum class Phase { kAway, kReported, kAnswered };

  bool resting(Time now) const noexcept;
  void enter(Phase phase);
  void findRound(JobStore& store);
  void askForRound(JobStore& store);
  void readVerdict(JobStore& store, JobProgress progress);
  void readFindings(JobStore& store);
  std::optional<std::string> proposal(JobStore& store, const std::string& hash) const;
  void takeProposal(JobStore& store, const std::string& hash, JobProgress progress);
  std::string whyNot(JobStore& store, const std::string& proposal) const;
  std::string otherPlan(JobStore& store, const std::string& plan) const;
  void readOutcome(JobStore& store, JobProgress progress);
  void commit(std::int64_t step, std::int64_t margin, JobProgress progress);
  void waitOn(JobStore& store, Time now);
  void keep(const std::string& why);
  void keepForNow(const std::string& why);

  const std::int32_t rank_, size_;
  const JobCallbacks& callbacks_;
  const JobAgreement::Options options_;
  const AgreementLeader* const leader_;
  Phase phase_ = Phase::kAway;
  JobRound round_;             // the last one that it took part in, or came too late for
  std::string document_;       // its last report, encoded
  std::string reported_;       // the one in this round
  bool found_ = false;         // what rank 0 found has been read, if it found anything
  bool ask_ = false;           // for another round, as soon as none is going on
  bool asked_ = false;         // it has, and nobody has written over it when it looked last
  std::optional<Time> begin_;  // of the phase: the first look in it
  Time next_look_{};
  std::int64_t looked_at_step_ = -1;
};

}  // namespace ebbtide::plugin
