// Program: what a Session knows of steps that run the same ops on the same values. Torch-free;
// whoever has it guards it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/activation_shares.hpp"
#include "ebbtide/scheduler/op_durations.hpp"
#include "plan/plan.hpp"
#include "runtime/programs/first_plan.hpp"

namespace ebbtide::plugin {

struct Program {
  static constexpr int kMostReplans = 4;

  void askAgain();  // its steps differ from their plan: kMostReplans times, then no more
  void askUncounted() { planning.replan = true; }  // for a reason that is not its steps'
  void forgetVerdict();  // it is planned, and its replays compared, as if it were a new one
  const std::shared_ptr<Plan>& planAt(std::int64_t step);  // that holds from then on
  // The only way in which a plan is put in force: with step `next`, the one that begins next, or
  // with `from`, where that is later. nullptr: nothing is to be dropped. True: it takes the place
  // of one that was made before and does something else.
  bool adopt(std::shared_ptr<Plan> adopted, std::int64_t predicted, std::int64_t from,
             std::int64_t next);
  void dropPlan();  // and that which is to take its place
  // Of a step in which nothing was dropped; `activation`: it made before its backward pass; 0: not
  // known. Both of the same step, the largest: a budget is peak less a share of the activations.
  void notePlainPeak(std::int64_t peak, std::int64_t activation);
  // A step followed its trusted plan to its end. `slowly`: it took longer to offload than planned.
  void noteFollowed(std::int64_t peak, bool slowly);
  void noteVerified(const Plan& whole);    // all of its replays were compared
  bool hasCompared(const Plan& of) const;  // have all of its replays been compared?

  // The plan that its steps follow, and what they showed of it.
  struct InForce {
    std::shared_ptr<Plan> plan;             // nullptr: nothing to drop, or nothing could be planned
    FirstPlan first;                        // that plan, if it is one
    std::int64_t predicted_peak_bytes = 0;  // by it
    std::int64_t steady_peak_bytes = 0;     // largest live bytes of a step under it, once checked
    int slow_offloads = 0;                  // steps in a row

    bool isFirst() const { return first.is(plan); }
  };
  InForce in_force;
  std::shared_ptr<const Plan> held_plan;  // kept the budget though nothing could be spilled
  struct Later {                          // a plan that takes its place
    std::shared_ptr<Plan> plan;
    std::int64_t predicted_peak_bytes = 0;
    std::int64_t from = 0;  // when that step begins
  };
  Later later;
  // Whether a plan is asked for, and how many were made.
  struct Planning {
    bool asked = false;   // a plan was asked for
    bool replan = false;  // and is to be asked for again
    bool from_first_step = false;
    bool awaits_search = false;  // the search goes on, but its first plan failed
    bool unpolished = false;     // a better plan is still to be searched for: another program's was
    bool said_plan = false;
    int replans = 0;
    int plans_made = 0;
  };
  Planning planning;
  // What a step takes in which nothing is dropped.
  struct Plain {
    std::int64_t peak_bytes = 0;
    std::int64_t activation_bytes = 0;
    scheduler::ActivationShares shares;
  };
  Plain plain;
  struct Verified {
    std::set<OpId> compared;  // ops whose replay equalled the original, at this place
    int partial = 0;
    int failed = 0;  // includes those that were partial too often
  };
  Verified verifications;
  scheduler::OpDurations durations;
  std::uint64_t first_op_signature = 0;
  std::int64_t steps = 0;

 private:
  void follow(std::shared_ptr<Plan> now, std::int64_t predicted);
};

}  // namespace ebbtide::plugin
