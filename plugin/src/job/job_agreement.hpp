// JobAgreement: how the ranks of a pipelined job come to one plan, through the store that the job
// has anyway. Torch-free.
//
//   rank 0   report · announces a round · collects all reports · plans · proposal, verdict
//   each     report ······························ verdict → fetches, prepares → "ready", its step
//   rank 0                                              all ready → outcome: "begin at step s"
//   each                                                             commits: from step s on
//
// A round that comes to nothing costs time-outs on the planning thread: each rank trains on with
// its own plan, and rank 0 says why. (A rank that cannot fit waits for advice in its steps, of
// itself: JobOutcome::stopOnceAdvised().) Ranks may well run different plans, for replays are
// local: what is agreed makes the step quicker, never right.
//
// Another round begins when a rank reports anew (another budget, another program) or came too late.
// Another process group, or the same one formed again, takes another JobAgreement.
//
// What each rank can rely on: it commits a plan that was made for its own report, and that all
// ranks of that round were ready for; in a round all that commit commit the same plan.
//
// Thread rule: all on one thread, the planning thread. Nothing here waits for another rank; poll()
// takes what its calls of the store and of the callbacks take. The destructor calls neither.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/job_store.hpp"
#include "job/rank_report.hpp"

namespace ebbtide::plugin {

struct JobPlanning {
  std::optional<std::string> plan = std::nullopt;
  std::string why_not = {};  // where there is none
  bool needed = true;  // false: nothing is short, so that there is none is not said to the user
  // Where there is none: ranks will report anew, and need not wait for it. Nothing is decided.
  bool again = false;
  std::optional<std::string> findings = std::nullopt;  // for the ranks, with a plan or without
  bool stopped = false;  // this process ends meanwhile: nobody is told anything
};

// What they throw is caught: the round comes to nothing.
struct JobCallbacks {
  // On rank 0, and on the others with `recheck`: same reports, same plan. Of each rank in order.
  std::function<JobPlanning(const std::vector<RankReport>&)> plan;
  // What rank 0 found, before all else of a verdict.
  std::function<void(const std::string& findings)> find;
  // Make the rank's own schedule. Nothing: it is ready; else why it cannot. That the plan is for
  // the last report that this rank gave is checked before.
  std::function<std::optional<std::string>(const std::string& plan)> prepare;
  // What was prepared last is used from this step on: from the next one if it is past already.
  std::function<void(std::int64_t step)> commit;
  // The round came to nothing: the rank's own plan holds, not one prepared or committed before.
  std::function<void(const std::string& why)> keep;
  // The same, and what the round was for is left to another one that follows or goes on.
  std::function<void(const std::string& why)> again;
  std::function<void(const std::string& text)> say;    // to the user
  std::function<void(const std::string& text)> debug;  // where details are asked for
};

struct JobTimes {
  using Duration = std::chrono::steady_clock::duration;
  Duration collect = std::chrono::seconds(60);  // rank 0, for all reports
  Duration answer = std::chrono::seconds(60);   // rank 0, for all to be ready
  Duration word = std::chrono::seconds(150);    // each, for a connection and rank 0's next word
  Duration active = std::chrono::milliseconds(200);  // between looks while something is due
  Duration idle = std::chrono::seconds(5);           // and else
  Duration gap = std::chrono::seconds(10);    // between rounds; twice that after each that failed
  Duration margin = std::chrono::seconds(1);  // from the outcome to its step, and 2 steps at least
};

struct JobProgress {
  std::int64_t step = 0;    // that runs now, or ran last
  Nanoseconds step_ns = 0;  // that one takes; 0: not known yet
};

class AgreementLeader;
class AgreementMember;

class JobAgreement {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Options {
    JobTimes times;
    std::uint64_t job = 0;  // of rank 0; 0: by chance
    bool recheck = false;   // plan on the other ranks too, and refuse a plan that differs
  };

  JobAgreement(std::unique_ptr<JobStore> store, std::int32_t rank, std::int32_t size,
               JobCallbacks callbacks, Options options);
  JobAgreement(std::unique_ptr<JobStore> store, std::int32_t rank, std::int32_t size,
               JobCallbacks callbacks);
  ~JobAgreement();
  JobAgreement(const JobAgreement&) = delete;
  JobAgreement& operator=(const JobAgreement&) = delete;

  // Nothing is agreed before the first; each later one asks for a new round. rank and size are
  // those of the constructor.
  void report(const RankReport& report) noexcept;
  // The last report holds no more: no part in anything until there is another one.
  void withdraw() noexcept;
  // Takes the protocol as far as it goes now. Call it about nextPoll(); earlier does no harm.
  void poll(Time now, JobProgress progress) noexcept;
  Time nextPoll() const noexcept;  // Time::max(): never again

  // False once the store failed: own plans from then on, and no more calls of it.
  bool alive() const noexcept { return store_ != nullptr; }

 private:
  bool connected(Time now);
  void giveUp(const std::string& why, bool said = true) noexcept;

  std::unique_ptr<JobStore> store_;
  const std::int32_t rank_, size_;
  const JobCallbacks callbacks_;
  const JobTimes times_;
  bool connected_ = false;
  std::optional<Time> first_poll_;           // with something to report
  Time next_try_{};                          // to find it connected
  std::unique_ptr<AgreementLeader> leader_;  // rank 0 only
  std::unique_ptr<AgreementMember> member_;
};

}  // namespace ebbtide::plugin
