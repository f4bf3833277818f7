#include "budget_floor.hpp"

#include <algorithm>
#include <cstdlib>

namespace ebbtide::plugin {

bool BudgetFloor::takesStep(std::int64_t steps, bool part_of_another) {
  return !decided() && (!part_of_another || steps >= kMostParts);
}

bool BudgetFloor::noteNeed(Bytes needed_bytes, bool alone) {
  const bool known = needed_bytes_ > 0;
  if (needed_bytes <= needed_bytes_ || (!alone && known)) return false;
  needed_bytes_ = needed_bytes;
  held_bytes_ = 0;
  return true;
}

bool BudgetFloor::noteStart(const Step& before) {
  if (before.violations <= violations_before_) return false;
  at_start_bytes_ = before.mapped_peak_bytes;
  return noteNeed(at_start_bytes_, /*alone=*/true);
}

bool BudgetFloor::noteStep(const Step& step) {
  if (decided()) return false;
  if (step.violations <= violations_before_ && state_ == State::kOpen) {
    ++held_;
    return false;
  }
  needed_bytes_ = std::max<Bytes>(needed_bytes_, step.mapped_peak_bytes);
  held_bytes_ = 0;
  const bool first = state_ == State::kOpen;
  state_ = State::kSearching;
  return first;
}

bool BudgetFloor::settles(Bytes base_bytes) const {
  if (last_base_bytes_ < 0) return false;
  const Bytes change = std::abs(base_bytes - last_base_bytes_);
  return change == 0 || change * 100 < kSettledPercent * last_base_bytes_;
}

bool BudgetFloor::noteBegin(Bytes base_bytes, Bytes budget_bytes, std::int64_t violations) {
  const State before = state_;
  const bool settled = settles(base_bytes);
  if (state_ == State::kSearching && (settled || ++over_ >= kMostOver)) state_ = State::kImpossible;
  const bool held = held_ >= kChecks && violations <= violations_before_;
  if (state_ == State::kOpen && held && (settled || begun_ >= kMostOver)) {
    state_ = State::kPossible;
    const bool needs_more = needed_bytes_ > budget_bytes && at_start_bytes_ <= budget_bytes;
    if (needs_more && (held_bytes_ == 0 || budget_bytes < held_bytes_)) held_bytes_ = budget_bytes;
  }
  last_base_bytes_ = base_bytes;
  ++begun_;
  return state_ != before;
}

void BudgetFloor::beginOther(std::int64_t violations) {
  if (state_ == State::kSearching && ++forgiven_ > kMostForgiven) return;
  needed_bytes_ = std::max<Bytes>(0, at_start_bytes_);
  held_bytes_ = 0;
  checkAgain();
  countFrom(violations);
}

void BudgetFloor::checkAgain() {
  state_ = State::kOpen;
  held_ = over_ = begun_ = 0;
  last_base_bytes_ = -1;
}

void BudgetFloor::beginAnew(std::int64_t violations) {
  forgiven_ = 0;
  checkAgain();
  countFrom(violations);
}

}  // namespace ebbtide::plugin
