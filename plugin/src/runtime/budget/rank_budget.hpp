// RankBudget: which budget holds, of a rank whose entry in EBBTIDE_BUDGET may be that of its stage.
//
//   default ──► its stage is learnt: one is due ──► taken, between two steps ──► learnt anew …
//      └──► nobody tells it in time: the default stays, until it is learnt all the same
//
// One that is asked for while the run goes on holds before all these, from the next step on. A run
// that is paused has none until it goes on.
//
// While one is due or awaited nothing is decided by the one in force. What was begun under one is
// no word on the next: they are told apart by a number. Torch-free; whoever has it guards it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/budget/stage_budget.hpp"

namespace ebbtide::plugin {

class RankBudget {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // More than a round of the job's plan takes.
  static constexpr auto kStageTime = std::chrono::seconds(180);
  // Of a rank that has told the others nothing by then, comes to no plan.
  static constexpr std::int64_t kStepsUntilTold = 20;

  // Nothing: the rank's budget is known from the start.
  // `own`: the rank's budget as it was written, "" for none.
  explicit RankBudget(std::optional<StageBudget> of_stage, std::string own = "")
      : of_stage_(std::move(of_stage)), own_(std::move(own)) {}

  bool isOfStage() const { return of_stage_.has_value(); }
  // May the budget in force be another one soon?
  bool isOpen() const {
    return due_ || awaits_rank_ || (!asked_ && of_stage_ && !of_stage_->known() && !given_up_);
  }
  // As the report of its steps says to the other ranks.
  bool asksOthers() const { return of_stage_ && of_stage_->asksOthers(); }
  const std::vector<std::int32_t>& stages() const { return of_stage_->stages(); }
  // Of its entry, as it was written; nothing: none is for this rank, as far as is known.
  std::optional<std::string> size() const { return of_stage_->size(); }

  // --- what is learnt
  // From a recorded step. True: one is due.
  bool noteStep(const scheduler::Trace& trace);
  enum class Found : std::uint8_t {
    kNothingNew,
    kSameBudget,   // is due too, but written alike: what the rank told the others holds
    kOtherBudget,  // is due
  };
  // From the ranks of its pipeline.
  Found noteFound(const std::vector<std::int32_t>& stages);
  // At a step's end. `told`: the others know what it runs. True: it has waited for their word long
  // enough, and gives its stage up.
  bool waitedLongEnough(std::int64_t steps, bool told, Time now);
  // Its pipeline has none to tell. False: it did so before, or its stage is known.
  bool giveUp();

  // Which rank it is, or how many share its machine, is being asked: no longer than the caller
  // waits for it.
  void awaitRank(bool awaits) { awaits_rank_ = awaits; }
  bool awaitsRank() const { return awaits_rank_; }
  // It is another rank than was taken, or shares its machine with others: its own budget is due.
  void becomeRank(std::optional<StageBudget> of_stage, std::string own);

  // --- what is asked for while it runs
  void ask(std::string size);  // "" for none: it is due
  void pause(bool paused);     // none is due, or the one that held before
  bool isPaused() const { return paused_; }
  bool isAsked() const { return asked_.has_value(); }
  // A pause has ended, and no step has shown since that the budget can be held: it cannot, and the
  // pause is due again. False: it is not so.
  bool pauseAgain();
  bool isResumed() const { return resumed_; }  // and nothing has shown yet that it can be held
  void noteHeld() { resumed_ = false; }
  // The asked one cannot be held: that before it is due. False: none was asked for.
  bool takeBack();

  // --- what holds
  // Is one written for it that bounds anything? A pause has none.
  bool holdsAny() const;
  // The one that is due, as it was written, "" for none: it holds from now on. Nothing: none is.
  std::optional<std::string> takeDue();
  void takeAgain() { due_ = true; }       // what is written comes to other bytes by now
  int number() const { return number_; }  // of the one in force

  // --- what is said once under each
  enum class Message : std::uint8_t { kFits, kOver, kInfeasible, kSpills, kShort };
  bool isNew(Message message);  // and no more from now on
  void forget(Message message) { said_[index(message)] = false; }
  // The one that holds since takeDue() has other bytes.
  void beginAnew() { said_ = {}; }
  void sayAgain() { said_ = {}; }

 private:
  static std::size_t index(Message message) { return static_cast<std::size_t>(message); }
  std::string written() const;  // of what holds, or is due

  std::optional<StageBudget> of_stage_;
  std::string own_;
  std::optional<std::string> asked_;
  std::optional<std::string> asked_before_;  // nothing: what is written for the rank
  bool due_ = false, given_up_ = false, paused_ = false, awaits_rank_ = false;
  bool resumed_ = false;    // and not known to be held since
  bool asked_due_ = false;  // what is asked for has not held yet
  std::optional<Time> wait_until_;
  int number_ = 0;
  std::array<bool, 5> said_{};
};

// "30.0 GiB", "none"
std::string budgetText(std::optional<std::int64_t> bytes);
// "stage 3", "stages 0, 2"
std::string stagesText(const std::vector<std::int32_t>& stages);

}  // namespace ebbtide::plugin
