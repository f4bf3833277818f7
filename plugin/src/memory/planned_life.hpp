// PlannedLife: how a value has fared under its plan in this step: who ends it, and what has brought
// it back. Torch-free.
//
//   left to the plan ── leaveToUses() ─► left to its uses: goes with the last one
//        ▲                                   │
//        └─── noteFetched(), a drop ─────────┘
//
//   not made again ── noteReplayed(), noteThere() ─► made again: stays, though its last use may be
//        ▲                                               │       released before
//        └────────────── noteDropDue() ──────────────────┘
//
//   reject(): its replay gave other contents. For the rest of the step none gives it.
//
// Thread rule: its owner's lock.
#pragma once

#include <cstdint>

namespace ebbtide::plugin {

class PlannedLife {
 public:
  bool leftToUses() const noexcept { return ends_ == Ends::kWithUses; }
  bool madeAgain() const noexcept { return made_again_; }
  bool rejected() const noexcept { return rejected_; }
  std::int32_t fetchesDone() const noexcept { return fetches_done_; }  // of the plan's

  // --- who ends it
  void leaveToUses() noexcept { ends_ = Ends::kWithUses; }
  void leaveToUsesIf(bool uses) noexcept { ends_ = uses ? Ends::kWithUses : Ends::kByPlan; }

  // --- what the plan does
  void noteDropDue() noexcept { made_again_ = false; }  // whether it goes or not
  void noteReplayed() noexcept { made_again_ = !rejected_; }
  // Its op was to run again, and all that it gives was there: nothing ran that could be rejected.
  void noteThere() noexcept { made_again_ = true; }
  void reject() noexcept { rejected_ = true; }
  void noteFetched() noexcept {
    ends_ = Ends::kByPlan;
    ++fetches_done_;
  }

 private:
  enum class Ends : std::uint8_t { kByPlan, kWithUses };

  std::int32_t fetches_done_ = 0;
  Ends ends_ = Ends::kByPlan;
  bool made_again_ = false;
  bool rejected_ = false;
};

}  // namespace ebbtide::plugin
