// BudgetFloor: what the steps so far need at least, with each value on the host whenever no op
// touches it; and whether the budget in force is possible.
//
//   a recorded step ─┬─ held ──► open ──► kChecks held, base settled ──► possible: enforced
//                    └─ went over ──► searching ──► base settled ──► impossible: refused
//                                        └─ lower, and steps held since ──► open, once
//
// The base is what lives when a step begins: parameters and data, from the second step on gradients
// and the optimizer's state too. It is settled at the first begin at which it differs by less than
// 1 % from the one before, at the latest kMostOver steps after the first one that went over. So the
// need that is named holds for the steps to come. Steps that held are proof, whatever is computed.
// What went over with a base that is gone by then is no word on these: DDP's first buckets live
// until PyTorch's watchdog, which polls, has seen their collective end: some runs a step longer.
//
// Steps that went over while another thread's kept them from being recorded tell no need. But the
// search of the next one of their thread that is recorded counts them: it ends as early as theirs.
//
// Torch-free. Thread rule: neededBytes(), heldBytes() and baseSettled() from any thread; whoever
// has it guards the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

namespace ebbtide::plugin {

class BudgetFloor {
 public:
  using Bytes = std::int64_t;

  static constexpr int kChecks = 2;  // steps that have to hold
  // Steps after the one that went over. Two of them may go over too. The third is refused as it
  // begins.
  static constexpr int kMostOver = 3;
  static constexpr int kMostParts = 4;  // steps that may be parts of one
  static constexpr int kSettledPercent = 1;
  static constexpr int kSamePercent = 1;  // what a proof is of, computed anew
  static constexpr int kMostForgiven = 8;

  enum class State : std::uint8_t { kOpen, kPossible, kSearching, kImpossible };

  // A recorded step is over, the process's so many-th: is it one that decides? Not one that ran a
  // part of the step before it backward: it goes on over updates from then on. The first step to
  // end may belong to a thread whose steps are not recorded yet.
  bool takesStep(std::int64_t steps, bool part_of_another);

  // What a step needs at least, which began with that base. `alone`: no other step was alive, whose
  // values count as fixed in it but can be spilled. True: it is the most by now.
  bool noteNeed(Bytes needed_bytes, bool alone, Bytes base_bytes = 0);

  struct Step {
    std::int64_t violations = 0;  // of the budget, in the process so far
    Bytes mapped_peak_bytes = 0;
    std::thread::id by = {};  // its thread
  };
  // The first step begins, with that base; what the program did before it may have gone over the
  // budget. True: it has. It counts as a need once a step has told its own: until then the steps
  // to come may need far more.
  bool noteStart(const Step& before, Bytes base_bytes);
  bool needsMostAtStart() const noexcept { return at_start_bytes_ == needed_bytes_; }
  // A step that decides is over. True: it is the first one that went over the budget.
  bool noteStep(const Step& step);
  // A step that another step kept from being recorded is over. `over`: it had violations.
  void noteUnrecorded(std::thread::id by, bool over, std::int64_t violations);
  // The most that was taken so far, by steps that were not recorded, too: while it searches, the
  // steps to come may need as much.
  void noteTaken(Bytes used_peak_bytes);
  // A step begins, with so much live and so many violations of the budget in the process so far.
  // Where one came since the last step that decided (in an evaluation), the next one decides.
  // True: the state is another one now.
  bool noteBegin(Bytes base_bytes, Bytes budget_bytes, std::int64_t violations);

  // A step that went over is of a program that was refused, with that need: the search ends when
  // the next one begins.
  void endSearch(Bytes needed_bytes);

  State state() const noexcept { return state_; }
  Bytes lastBaseBytes() const noexcept { return last_base_bytes_; }  // -1: no step began
  // Was it settled once, for this program? What steps before that need lacks the optimizer's state,
  // say: no budget may be named by it.
  bool baseSettled() const noexcept { return base_settled_; }
  void noteBaseSettled() noexcept { base_settled_ = true; }  // without a budget others find out
  // A search has ended as the base sank. What was taken before that is still counted as a need.
  bool judgedAnew() const noexcept { return sank_; }
  int begun() const noexcept { return begun_; }  // steps, while nothing was decided
  bool tooSmall() const noexcept {
    return state_ == State::kSearching || state_ == State::kImpossible;
  }
  bool decided() const noexcept {
    return state_ == State::kPossible || state_ == State::kImpossible;
  }

  Bytes neededBytes() const noexcept { return needed_bytes_; }           // 0: not known
  Bytes neededBaseBytes() const noexcept { return needed_base_bytes_; }  // of the step that did
  // The smallest budget that steps have held, though they should need more; 0: none did.
  Bytes heldBytes() const noexcept { return held_bytes_; }

  // The next steps decide.
  void checkAgain();
  // Violations of the budget until now, in the process so far, are no word on the one in force.
  void countFrom(std::int64_t violations) { violations_before_ = violations; }
  // As a run that begins, under another budget: its program needs what it did, and what its steps
  // have held is proof still.
  void beginAnew(std::int64_t violations);
  // Another program begins: what steps needed is forgotten. What came before the first one is taken
  // to come again, beside the base that there is now. From the ninth time on that this cuts a
  // search off it goes on all the same: a program that fails and catches it in every other step
  // would never be judged. Steps that hold by then, and need less than the budget, end that search.
  void beginOther(std::int64_t violations);

 private:
  struct Unrecorded {  // steps of a thread, one after the other, that could not be recorded
    std::thread::id by = {};
    int over = 0;
    std::int64_t violations = 0;  // at the last one's end, in the process
  };

  bool settles(Bytes base_bytes) const;
  bool sank(Bytes base_bytes, std::int64_t violations) const;
  bool isOfOthers(Bytes budget_bytes, std::int64_t violations) const;
  void setNeed(Bytes bytes, Bytes base_bytes);

  std::atomic<Bytes> needed_bytes_{0}, held_bytes_{0};
  std::atomic<bool> base_settled_{false};
  State state_ = State::kOpen;
  Bytes at_start_bytes_ = -1;      // what was needed before the first step; -1: it held
  Bytes at_start_base_bytes_ = 0;  // that was left of it when the step began
  bool other_ = false;             // a program begins that is not the first
  Bytes needed_base_bytes_ = 0, needed_when_held_bytes_ = 0;
  int held_ = 0;                // steps, since one went over if one did
  Unrecorded unrecorded_;       // until one is recorded
  int over_ = 0;                // steps that began since one went over
  Bytes over_base_bytes_ = 0;   // of the last one that went over
  Bytes told_bytes_ = 0;        // the need of the last step that was alone, since one went over
  bool sank_ = false;           // a search ended so
  Bytes last_base_bytes_ = -1;  // when the step before began; -1: none did
  int begun_ = 0;
  int forgiven_ = 0;                    // searches that another program cut off
  std::int64_t violations_before_ = 0;  // the budget in force
  std::int64_t violations_seen_ = 0;    // at the end of the last step that decides
};

}  // namespace ebbtide::plugin
