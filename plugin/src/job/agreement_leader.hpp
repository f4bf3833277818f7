// AgreementLeader: what rank 0 does for all in a round of JobAgreement. It alone announces rounds,
// and writes verdict and outcome, each once: so no two ranks read different ones. Torch-free.
//
//   resting ──► collecting ── all reports: plans ──► answering ── all ready: begin ──► resting
//      ▲             └────────── missing, keep ──────────┴───────────── keep ────────────►
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "job/job_agreement.hpp"
#include "job/job_round.hpp"

namespace ebbtide::plugin {

class AgreementLeader {
 public:
  using Time = JobAgreement::Time;
  // `callbacks` outlive it.
  AgreementLeader(std::int32_t size, const JobCallbacks& callbacks, JobAgreement::Options options);

  // From the first report of this rank on. Throws what the store throws.
  void look(JobStore& store, Time now, JobProgress progress);
  Time nextLook() const noexcept { return next_look_; }
  // What it has in the store under this key; nullptr: no plan.
  const std::string* planUnder(const std::string& key) const noexcept {
    return key == plan_key_ ? &plan_text_ : nullptr;
  }

 private:
  enum class Phase { kResting, kCollecting, kAnswering };

  bool wanted(JobStore& store) const;
  void enter(Phase phase);
  void open(JobStore& store);
  void collect(JobStore& store, Time now);
  void judge(JobStore& store, Time now);
  JobPlanning planned() const;
  std::vector<RankReport> readReports() const;
  void propose(JobStore& store, Time now, const std::string& plan);
  void gather(JobStore& store, Time now, JobProgress progress);
  void begin(JobStore& store, Time now, JobProgress progress);
  void fail(JobStore& store, Time now, const std::string& key, const std::string& why,
            bool said = true, const char* word = "keep");
  void endRound(JobStore& store, Time now, bool agreed);
  void removeReports(JobStore& store);
  void removeWords(JobStore& store, const JobRound& round);
  void removeSome(JobStore& store);
  // Asks the store for the words that are missing, rank by rank, each under key_of(rank). It stops
  // once a few ranks had none; where it is `late` it asks all ranks. A slow store cuts the row.
  // True: the words of all ranks are there.
  template <typename KeyOf>
  bool hear(JobStore& store, KeyOf key_of, bool late);
  // Have the phase's late looks asked all ranks? A rank that is silent then has said nothing in
  // time.
  bool hasAskedAllLate() const noexcept { return asked_late_ >= size_; }
  std::vector<std::int32_t> silent() const;

  const std::int32_t size_;
  const JobCallbacks& callbacks_;
  const JobAgreement::Options options_;
  Phase phase_ = Phase::kResting;
  JobRound round_;
  std::vector<std::optional<std::string>> heard_;  // of each rank: its report, then its answer
  std::int32_t next_asked_ = 0;                    // rank
  std::int32_t asked_late_ = 0;                    // ranks, in the phase's late looks
  std::string plan_text_;
  std::string plan_key_;                // "": none
  std::vector<std::string> to_remove_;  // from the store, the last ones first
  bool again_ = false;                  // the last round was for its findings alone
  std::optional<Time> begin_;           // of the phase: the first look in it
  Time next_look_{};
  Time next_round_{};  // not before
  JobTimes::Duration gap_;
  std::int64_t looked_at_step_ = -1;
};

}  // namespace ebbtide::plugin
