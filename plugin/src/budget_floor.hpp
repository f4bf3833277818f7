// BudgetFloor: the smallest budget that the steps so far can be trained in, with each value on the
// host whenever no op touches it; and whether the one in force is possible at all.
//
//   first recorded step ──► does it fit? ──► second one, which begins with what the first one left
//
// Steps that held are proof, whatever is computed: of the second one, since the first one begins
// without the optimizer's state. Torch-free. Thread rule: smallestBytes() from any thread; whoever
// has it guards the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

namespace ebbtide::plugin {

class BudgetFloor {
 public:
  using Bytes = std::int64_t;

  static constexpr int kChecks = 2;     // steps
  static constexpr int kMostParts = 4;  // steps that may be parts of one

  // A recorded step is over, the process's so many-th: is it one that decides? Not one that ran a
  // part of the step before it backward: it goes on over updates from then on. The first step to
  // end may belong to a thread whose steps are not recorded yet.
  bool takesStep(std::int64_t steps, bool part_of_another);

  // What it takes, with what a plan must leave free. `alone`: no other step was alive, whose values
  // count as fixed in it but can be spilled. True: it is the most by now.
  bool noteFloor(Bytes floor_bytes, bool alone);
  void setDominating(std::string ops) { dominating_ = std::move(ops); }

  struct Step {
    Bytes floor_bytes = 0;
    Bytes headroom_bytes = 0;  // of it: what fits without that is not refused
    bool alone = true;
    std::int64_t violations = 0;  // of the budget, in the process so far
    Bytes mapped_peak_bytes = 0;
  };
  enum class Verdict : std::uint8_t { kOpen, kPossible, kImpossible };
  Verdict judge(const Step& step, Bytes budget_bytes);

  Bytes smallestBytes() const noexcept { return smallest_bytes_; }  // 0: not known
  const std::string& dominating() const { return dominating_; }     // what takes most of it

  // The next two recorded steps decide.
  void checkAgain() { checks_ = 0; }
  bool decided() const { return checks_ == kChecks; }
  // Violations of the budget until now, in the process so far, are no word on the one in force.
  void countFrom(std::int64_t violations) { violations_before_ = violations; }
  // As a run that begins, under another budget: its first step may go over an impossible one.
  void beginAnew(std::int64_t violations);

 private:
  std::atomic<Bytes> smallest_bytes_{0};
  std::string dominating_;
  int checks_ = 0;
  std::int64_t violations_before_ = 0;  // the budget in force
};

}  // namespace ebbtide::plugin
