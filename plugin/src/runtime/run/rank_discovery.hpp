// RankDiscovery: which rank of its job a process is, where its launcher's variables do not tell all
// of it: mp.spawn, forked workers, Lightning. Torch-free.
//
//   first step ─► the variables, anew: a program may have set them since `import torch`
//     ├─ they tell all ─► settled
//     ├─ no process group ─► taken to be alone; what it warns of by that waits 5 s
//     │     └─ between two later steps a group is found ─┐
//     └─ a group ◄───────────────────────────────────────┘
//          ─► rank and world size: entries of EBBTIDE_BUDGET, names of files, labels
//          ─► the planning thread asks the ranks who shares the machine
//          ─► percentages, from the next step on; port and socket: settled
//
// A rank whose variables and group agree (srun's, mpirun's) asks, too: others of its group may have
// inherited their variables, and wait for its answer. Its own place stays as it was told.
//
// Thread rule: the planning thread, where no other one is named; before it starts, and once it has
// ended, the one that starts or ended it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/current_config.hpp"
#include "config/rank_place.hpp"
#include "job/job_store.hpp"
#include "job/rank_survey.hpp"
#include "runtime/run/run_control.hpp"
#include "runtime/run/session_guard.hpp"

namespace ebbtide::plugin {

// How to find the job's default process group, where the launcher's variables do not tell which
// rank this process is.
struct DefaultGroupOffer {
  std::function<std::optional<GroupPlace>()> find;  // training threads, between steps; never waits
  std::function<std::unique_ptr<JobStore>()> open;  // the planning thread
};

class RankDiscovery {
 public:
  using Held = SessionGuard::Held;
  using Time = RankSurvey::Time;
  using Tell = std::function<bool(const std::string& text)>;  // false: it was not said (RunLines)

  enum class Stage : std::uint8_t {
    kAlone,   // no group so far: taken to be alone once it has trained a little
    kAsking,  // the ranks of its group, how many share its machine
    kKnown,   // nothing is left to learn
  };

  // Whose rank it is.
  class Process {
   public:
    virtual ~Process() = default;
    // The configuration is that of this rank from now on, and its budget is due.
    virtual void becomeRank(const Held&, const RankPlace& place, const std::string& job_id) = 0;
    // Its budget waits until it is known who shares the machine, where it depends on that; or it
    // waits no more. Did it wait before?
    virtual bool awaitRanks(const Held&, bool awaits) = 0;
    // As RunControl has it.
    virtual RunControl::Served serve(bool on_any_port) = 0;
    // `first`: nothing has been said of where it is. False: nothing was said now, as the process
    // ends.
    virtual bool sayWhere(const std::string& endpoint, bool first) = 0;
    // What it is taken to be is final, or so likely that it acts by it.
    virtual void settleRank() = 0;
  };

  // All of it must outlive this. `ends`: the process ends, and nobody is served any more.
  RankDiscovery(const CurrentConfig& config, SessionGuard& guard, Process& process,
                const std::atomic<bool>& ends, Tell warn);

  // Before the first step. Empty: no group is to be found.
  void offerGroup(DefaultGroupOffer group) { default_group_ = std::move(group); }
  // The first step begins, and these are the variables, which do not tell all, or tell another rank
  // than the configuration's.
  void begin(const Held& held, const RankPlace& told, const std::string& job_id);
  // That step says where it is, but where the others are to be asked before.
  void show();
  // A forked child trains: it says where it is. Its training thread, before the planning thread
  // calls nextLook() or seek() for the first time.
  void showChild() { sayWhere(/*may_wait=*/false); }
  // A later step begins: is there a group now that there was not? Any thread, which never waits.
  bool lookForGroup();

  Time nextLook(const Held& held) const;  // Time::max(): nothing is left to look for
  void seek(Time now);
  // Says the first line and the problem, where no line has said them so far, and serves nobody.
  void settleAtEnd() { settle(/*may_wait=*/false); }
  void giveUp(const Held& held) { state_.with(held).settled = true; }

  Stage stage(const Held& held) const { return state_.with(held).stage; }
  // The process has acted by what it is taken to be.
  bool settled(const Held& held) const { return state_.with(held).settled; }

 private:
  struct State {
    Stage stage = Stage::kKnown;
    bool settled = false;
    std::optional<GroupPlace> group;  // whose ranks are asked
    Time begun_at, asked_at;
  };

  void takeGroup(const Held& held, const GroupPlace& group);
  void startSurvey();
  void learnPlace(const RankSurvey::Found& found);
  void act();  // by what it is taken to be
  void actMeanwhile();
  void stopWaiting(const std::string& why);
  void goWithoutPlace(const std::string& why);
  // `may_wait`: the planning thread calls it, so no training thread waits meanwhile.
  void settle(bool may_wait);
  void sayWhere(bool may_wait);
  std::string serve(bool may_wait);
  void tellWhere();
  // The process ends, and lines of the planning thread are not written any more. settleAtEnd()
  // writes them.
  bool isUnheard(bool may_wait) const { return may_wait && ends_; }

  const CurrentConfig& config_;
  SessionGuard& guard_;
  Process& process_;
  const std::atomic<bool>& ends_;
  const Tell warn_;
  DefaultGroupOffer default_group_;
  std::atomic<bool> looks_for_group_{false};
  std::atomic<std::int64_t> next_group_look_ns_{0};
  Guarded<State, Session> state_;
  std::unique_ptr<RankSurvey> survey_;
  bool said_where_ = false, acts_meanwhile_ = false;
  std::string endpoint_ = "no endpoint";
  RankPlace served_as_;
  std::string served_job_;
  std::string serve_problem_;  // not said while another rank of the job may be its cause
};

}  // namespace ebbtide::plugin
