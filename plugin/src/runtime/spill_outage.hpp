// SpillOutage: what holds from the first write on that the spill file does not take.
//
//   a write fails ──► plans write nothing to the host any more; a step may go over the budget
//        │            where nothing can be computed again, and is counted
//        ├─► a step followed a plan of replays alone within the budget: under this plan it holds
//        └─► no such plan fits, and a step followed the best plan; or for kMostSteps no step did
//            either: the next recorded steps decide whether the budget is possible, as a run's
//            first ones do
//
// Torch-free. Thread rule: begin() and began() from any thread, without a lock; whoever has it
// guards the rest.
#pragma once

#include <atomic>
#include <utility>

namespace ebbtide::plugin {

class SpillOutage {
 public:
  static constexpr int kMostSteps = 64;  // in a row: recorded, planned for and verified

  // False: it had begun before.
  bool begin() noexcept { return !began_.exchange(true); }
  bool began() const noexcept { return began_; }

  // It has begun, and this is the first call since.
  bool take() { return began_ && !std::exchange(taken_, true); }
  // May a step go over the budget, but under a plan that has held it?
  bool awaitsPlan() const { return began_ && !over_; }
  // A step is over. `held`: it followed a plan that writes nothing, and kept the budget. True: too
  // many did not, and no plan is awaited any more.
  bool endStep(bool held) {
    if (!awaitsPlan()) return false;
    steps_ = held ? 0 : steps_ + 1;
    return over_ = steps_ >= kMostSteps;
  }
  // No plan fits, and the need of the best plan is known. False: no plan was awaited.
  bool giveUp() { return awaitsPlan() && (over_ = true); }

 private:
  std::atomic<bool> began_{false};
  bool taken_ = false, over_ = false;
  int steps_ = 0;  // since the last that held
};

}  // namespace ebbtide::plugin
