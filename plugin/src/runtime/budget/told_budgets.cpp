#include "runtime/budget/told_budgets.hpp"

#include <algorithm>

namespace ebbtide::plugin {

// Of the base as it is now.
std::int64_t ToldBudgets::needNow() const noexcept {
  const Bytes needed = floor_.baseSettled() ? floor_.neededBytes() : 0;
  return needed > 0 ? needed + grown_.bytes() : 0;
}

// Steps that held a smaller budget than they should need are proof that it will do.
std::int64_t ToldBudgets::orHeld(Bytes bytes) const noexcept {
  const Bytes held = heldBytes();
  return held > 0 ? std::min(bytes, held) : bytes;
}

std::int64_t ToldBudgets::smallestBytes() const noexcept {
  return orHeld(trained_.namedBudgetBytes(needNow()));
}

std::int64_t ToldBudgets::smallestWithoutMarginBytes() const noexcept {
  return orHeld(needNow());
}

std::int64_t ToldBudgets::neededBytes() const noexcept {
  const Bytes needed = floor_.neededBytes();
  return needed > 0 ? needed + trained_.headroomBytes(trained_.budgetBytes().value_or(0)) : 0;
}

std::int64_t ToldBudgets::heldBytes() const noexcept {
  const Bytes held = floor_.heldBytes();
  return held > 0 ? held + grown_.sinceJudgedBytes() : 0;
}

std::int64_t ToldBudgets::halfBytes(Bytes plain_peak_bytes, Bytes activation_bytes) const {
  if (!floor_.baseSettled()) return 0;
  const Bytes less = plain_peak_bytes - activation_bytes / 2 + trained_.unplannedBytes();
  return std::max(trained_.budgetWithRoomFor(less), smallestBytes());
}

}  // namespace ebbtide::plugin
