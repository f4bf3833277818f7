#include "runtime/budget/budget_floor.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace ebbtide::plugin {

bool BudgetFloor::takesStep(std::int64_t steps, bool part_of_another) {
  return !decided() && (!part_of_another || steps >= kMostParts);
}

// A proof is of a program: what is computed for it may differ a little from step to step.
void BudgetFloor::setNeed(Bytes bytes, Bytes base_bytes) {
  needed_bytes_ = std::max(bytes, at_start_bytes_);
  needed_base_bytes_ = base_bytes;
  const bool same = needed_bytes_ * 100 <= needed_when_held_bytes_ * (100 + kSamePercent);
  if (!same) held_bytes_ = 0;
}

bool BudgetFloor::noteNeed(Bytes needed_bytes, bool alone, Bytes base_bytes) {
  const bool known = needed_bytes_ > 0;
  if (alone) told_bytes_ = needed_bytes;
  if (std::max(needed_bytes, at_start_bytes_) <= needed_bytes_ || (!alone && known)) return false;
  setNeed(needed_bytes, base_bytes);
  return needed_bytes_ == needed_bytes;
}

bool BudgetFloor::noteStart(const Step& before, Bytes base_bytes) {
  if (before.violations <= violations_before_) return false;
  at_start_bytes_ = before.mapped_peak_bytes;
  at_start_base_bytes_ = base_bytes;
  return true;
}

// A step of another thread may need what this one's do not tell.
void BudgetFloor::noteUnrecorded(std::thread::id by, bool over, std::int64_t violations) {
  if (state_ != State::kOpen) return;
  if (by != unrecorded_.by) unrecorded_ = {.by = by};
  if (over) ++unrecorded_.over;
  unrecorded_.violations = violations;
}

bool BudgetFloor::noteStep(const Step& step) {
  if (decided()) return false;
  const std::int64_t seen = std::exchange(violations_seen_, step.violations);
  if (step.violations <= violations_before_ && state_ == State::kOpen) {
    ++held_;
    return false;
  }
  const bool first = state_ == State::kOpen, over = first || step.violations > seen;
  const Unrecorded before = std::exchange(unrecorded_, {});
  // If this one held, what those went over with may be gone.
  const bool goes_on = before.by == step.by && step.violations > before.violations;
  if (first && goes_on) over_ = std::min(before.over, kMostOver - 1);
  held_ = over ? 0 : held_ + 1;
  if (over) {
    over_base_bytes_ = last_base_bytes_;
    told_bytes_ = 0;
  }
  if (step.mapped_peak_bytes > needed_bytes_) setNeed(step.mapped_peak_bytes, last_base_bytes_);
  held_bytes_ = 0;
  state_ = State::kSearching;
  return first;
}

// The base is no lower than it was when that was refused.
void BudgetFloor::endSearch(Bytes needed_bytes) {
  if (state_ != State::kSearching) return;
  over_ = kMostOver;
  if (needed_bytes > needed_bytes_) setNeed(needed_bytes, last_base_bytes_);
}

// Where no step has told its need, what one that failed took is no need either.
void BudgetFloor::noteTaken(Bytes used_peak_bytes) {
  if (state_ != State::kSearching || needed_bytes_ == 0 || used_peak_bytes <= needed_bytes_) return;
  setNeed(used_peak_bytes, last_base_bytes_);
  held_bytes_ = 0;
}

bool BudgetFloor::settles(Bytes base_bytes) const {
  if (last_base_bytes_ < 0) return false;
  const Bytes change = std::abs(base_bytes - last_base_bytes_);
  return change == 0 || change * 100 < kSettledPercent * last_base_bytes_;
}

// Below what a step that went over began with, and a step that began with less held.
bool BudgetFloor::sank(Bytes base_bytes, std::int64_t violations) const {
  const bool less = base_bytes * 100 < over_base_bytes_ * (100 - kSettledPercent);
  return !sank_ && less && held_ > 0 && told_bytes_ > 0 && violations <= violations_seen_;
}

// A search that goes on through failures is of several programs. Steps of this one have held, and
// need no more than there is.
bool BudgetFloor::isOfOthers(Bytes budget_bytes, std::int64_t violations) const {
  return forgiven_ > kMostForgiven && held_ > 0 && needed_bytes_ <= budget_bytes &&
         violations <= violations_seen_;
}

bool BudgetFloor::noteBegin(Bytes base_bytes, Bytes budget_bytes, std::int64_t violations) {
  const State before = state_;
  const bool settled = settles(base_bytes);
  if (std::exchange(other_, false) && at_start_bytes_ > 0) {
    const Bytes more = std::max<Bytes>(0, at_start_bytes_ - at_start_base_bytes_);  // for a moment
    at_start_bytes_ = std::min(at_start_bytes_, base_bytes + more);
  }
  if (state_ == State::kSearching && settled && sank(base_bytes, violations)) {
    state_ = State::kOpen;
    sank_ = true;
    over_ = 0;
    countFrom(violations);
    setNeed(told_bytes_, base_bytes);
  }
  // Of a search that goes on through failures no step may have told its need.
  if (state_ == State::kSearching && (settled || ++over_ >= kMostOver) && needed_bytes_ > 0) {
    const bool of_others = isOfOthers(budget_bytes, violations);
    state_ = of_others ? State::kOpen : State::kImpossible;
    if (of_others) {
      over_ = 0;
      countFrom(violations);
    }
  }
  const bool held = held_ >= kChecks && violations <= violations_before_;
  if (state_ == State::kOpen && held && (settled || begun_ >= kMostOver)) {
    state_ = State::kPossible;
    const bool needs_more = needed_bytes_ > budget_bytes && at_start_bytes_ <= budget_bytes;
    if (needs_more && (held_bytes_ == 0 || budget_bytes < held_bytes_)) {
      held_bytes_ = budget_bytes;
      needed_when_held_bytes_ = needed_bytes_;
    }
  }
  last_base_bytes_ = base_bytes;
  if (settled || decided() || begun_ >= kMostOver) noteBaseSettled();
  ++begun_;
  return state_ != before;
}

void BudgetFloor::beginOther(std::int64_t violations) {
  needed_bytes_ = held_bytes_ = needed_base_bytes_ = 0;
  base_settled_ = false;
  other_ = true;
  if (state_ == State::kSearching && ++forgiven_ > kMostForgiven) {
    held_ = 0;
    violations_seen_ = violations;
    return;
  }
  checkAgain();
  countFrom(violations);
}

void BudgetFloor::checkAgain() {
  state_ = State::kOpen;
  held_ = over_ = begun_ = 0;
  unrecorded_ = {};
  sank_ = false;
  told_bytes_ = over_base_bytes_ = 0;
  last_base_bytes_ = -1;
}

void BudgetFloor::beginAnew(std::int64_t violations) {
  forgiven_ = 0;
  checkAgain();
  countFrom(violations);
}

}  // namespace ebbtide::plugin
