#include "planners/chain/slot_sizes.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ebbtide::scheduler {

SlotSizes::SlotSizes(const ChainCosts& costs, const SlotGrid& grid, Nanoseconds most_ns)
    : costs_(costs), grid_(grid) {
  double total = 0, rounded = 0;  // of ā
  for (std::size_t s = 0; s < costs.stages(); ++s) {
    input_.push_back(toSlots(costs.input[s]));
    total += static_cast<double>(costs.saved[s]) / grid.slot_bytes;
    const double nearest =
        std::min(std::round(total) - rounded, static_cast<double>(grid.slots) + 1);
    rounded = std::round(total);
    const bool up = grid.rounding == SlotRounding::kUp;
    saved_.push_back(up ? toSlots(costs.saved[s]) : static_cast<std::int32_t>(nearest));
  }
  time_unit_ = std::max(1.0, static_cast<double>(most_ns) / kMostTime);
  bound_ = toTime(most_ns);
  for (std::size_t s = 0; s < costs.stages(); ++s) {
    run_time_.push_back(toTime(costs.run_ns[s]));
    save_time_.push_back(toTime(costs.save_ns[s]));
    std::vector<std::int32_t> partial;
    for (std::size_t which = 0; which < costs.partials(s); ++which) {
      // As far below ā as it is in bytes, so that ā's error is the only one.
      const Bytes saved = costs.partial[s][which].saved;
      const Bytes below = costs.saved[s] - saved;
      const bool up = grid.rounding == SlotRounding::kUp;
      partial.push_back(up ? toSlots(saved) : std::max(saved_[s] - toSlots(below), 0));
    }
    partial_saved_.push_back(std::move(partial));
  }
}

std::int32_t SlotSizes::toTime(Nanoseconds time) const {
  const double units = std::round(static_cast<double>(time) / time_unit_);
  return static_cast<std::int32_t>(std::min(units, static_cast<double>(kMostTime)));
}

// One slot more than there are stands for everything above.
std::int32_t SlotSizes::toSlots(Bytes bytes) const {
  const double slots = static_cast<double>(bytes) / grid_.slot_bytes;
  const double whole = grid_.rounding == SlotRounding::kUp ? std::ceil(slots) : std::round(slots);
  return static_cast<std::int32_t>(std::min(whole, static_cast<double>(grid_.slots) + 1));
}

Nanoseconds SlotSizes::toNs(std::int32_t time) const {
  return static_cast<Nanoseconds>(std::llround(time_unit_ * time));
}

std::int32_t SlotSizes::save(std::size_t s, std::size_t t) const {
  return toSlots(std::max(costs_.savePeak(s, t), costs_.backward[s]));
}

}  // namespace ebbtide::scheduler
