// SpillOutage: what holds from the first write on that the spill file does not take.
//
//   a write fails ──► plans write nothing to the host any more; a step may go over the budget
//        │            where nothing can be computed again, and is counted
//        ├─► a step followed a plan of replays alone within the budget: under this plan it holds
//        └─► no such plan fits, and a step followed the best plan; or for kMostSteps no step did
//            either; or kMostSteps have gone over the budget since the write: the next recorded
//            steps decide whether the budget is possible, as a run's first ones do
//
// Torch-free. Thread rule: begin() and began() from any thread, without a lock; whoever has it
// guards the rest.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace ebbtide::plugin {

class SpillOutage {
 public:
  static constexpr int kMostSteps = 64;  // that are recorded, planned for and verified

  // False: it had begun before.
  bool begin() noexcept { return !began_.exchange(true); }
  bool began() const noexcept { return began_; }

  // It has begun, and this is the first call since.
  bool take() { return began_ && !std::exchange(taken_, true); }
  // May a step go over the budget, but under a plan that has held it?
  bool awaitsPlan() const { return began_ && !over_; }
  // A step is over. kHeld: it followed a plan that writes nothing, and kept the budget. kOther: it
  // kept the budget otherwise. True: too many did not hold, and no plan is awaited any more.
  enum class Step : std::uint8_t { kHeld, kOther, kWentOver };
  bool endStep(Step step) {
    if (!awaitsPlan()) return false;
    in_a_row_ = step == Step::kHeld ? 0 : in_a_row_ + 1;
    if (step == Step::kWentOver) ++went_over_;
    return over_ = std::max(in_a_row_, went_over_) >= kMostSteps;
  }
  // No plan fits, and the need of the best plan is known. False: no plan was awaited.
  bool giveUp() { return awaitsPlan() && (over_ = true); }

 private:
  std::atomic<bool> began_{false};
  bool taken_ = false, over_ = false;
  int in_a_row_ = 0;   // steps since the last that held
  int went_over_ = 0;  // steps since the outage began: another program's may hold in between
};

}  // namespace ebbtide::plugin
