#include "ebbtide/scheduler/budget_margins.hpp"

#include <algorithm>

namespace ebbtide::scheduler {
namespace {

// A budget that is named has this beside what steps needed: the next ones may need a little more.
constexpr Bytes kMiB = 1 << 20;
constexpr double kNamedShare = 0.03;
constexpr Bytes kLeastNamed = 2 << 20;

}  // namespace

Bytes BudgetMargins::headroomBytes(Bytes budget_bytes) const {
  return std::max(least_headroom_bytes,
                  static_cast<Bytes>(headroom_share * static_cast<double>(budget_bytes)));
}

Bytes BudgetMargins::capBytes(Bytes budget_bytes) const {
  return budget_bytes - unplanned_bytes - headroomBytes(budget_bytes);
}

Bytes BudgetMargins::budgetWithRoomFor(Bytes bytes) const {
  const double by_share = static_cast<double>(bytes) / (1 - headroom_share);
  Bytes budget = std::max(bytes + least_headroom_bytes, static_cast<Bytes>(by_share));
  while (budget - headroomBytes(budget) < bytes) ++budget;  // rounding
  return budget;
}

Bytes BudgetMargins::namedBudgetBytes(Bytes needed_bytes) const {
  if (needed_bytes <= 0) return 0;
  const auto share = static_cast<Bytes>(kNamedShare * static_cast<double>(needed_bytes));
  const Bytes least =
      std::max(budgetWithRoomFor(needed_bytes), needed_bytes + std::max(kLeastNamed, share));
  return (least + kMiB - 1) / kMiB * kMiB;
}

}  // namespace ebbtide::scheduler
