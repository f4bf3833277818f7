#include "budget_floor.hpp"

#include <algorithm>

namespace ebbtide::plugin {

bool BudgetFloor::takesStep(std::int64_t steps, bool part_of_another) {
  if (checks_ == kChecks || (part_of_another && steps < kMostParts)) return false;
  ++checks_;
  return true;
}

bool BudgetFloor::noteFloor(Bytes floor_bytes, bool alone) {
  const bool told = smallest_bytes_ > 0;
  if (floor_bytes <= smallest_bytes_ || (!alone && told)) return false;
  smallest_bytes_ = floor_bytes;
  return true;
}

// The figure that was told is not refused either, nor is what held where others were live.
BudgetFloor::Verdict BudgetFloor::judge(const Step& step, Bytes budget_bytes) {
  if (step.violations <= violations_before_) {
    const bool fits = step.floor_bytes - step.headroom_bytes <= budget_bytes;
    if (fits || !step.alone) return Verdict::kPossible;
    if (checks_ < kChecks) return Verdict::kOpen;
    smallest_bytes_ = budget_bytes;
    return Verdict::kPossible;
  }
  smallest_bytes_ = std::max<Bytes>(smallest_bytes_, step.mapped_peak_bytes);
  return Verdict::kImpossible;
}

void BudgetFloor::beginAnew(std::int64_t violations) {
  smallest_bytes_ = 0;
  countFrom(violations);
}

}  // namespace ebbtide::plugin
