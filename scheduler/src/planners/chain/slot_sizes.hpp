// A chain's costs in the units of its programs: slots of memory and 32-bit times.
#pragma once

#include <vector>

#include "planners/chain/chain_program.hpp"

namespace ebbtide::scheduler {

class SlotSizes {
 public:
  static constexpr std::int32_t kMostTime = 1 << 29;  // three of them fit 32 bits

  // Times are exact if `most_ns` is at most 2^29 ns, else in units of that part of it.
  SlotSizes(const ChainCosts& costs, const SlotGrid& grid, Nanoseconds most_ns);

  std::int32_t bound() const { return bound_; }  // most_ns: times from it on are infeasible
  std::int32_t input(std::size_t s) const { return input_[s]; }
  std::int32_t saved(std::size_t s) const { return saved_[s]; }
  // To run stage s on the way to the backward of t: as the first stage, whose input the program
  // counts apart, or as a later one.
  std::int32_t runFirst(std::size_t s, std::size_t t) const {
    return toSlots(costs_.runPeak(s, t));
  }
  std::int32_t runLater(std::size_t s, std::size_t t) const {
    return toSlots(costs_.input[s] + costs_.runPeak(s, t));
  }
  // To run s so that it saves, and later its backward: m_all of rotor2024, Theorem 4.8.
  std::int32_t save(std::size_t s, std::size_t t) const;
  // The same of a partial save.
  std::int32_t partialSave(std::size_t s, std::size_t t, std::size_t which) const {
    return toSlots(costs_.partialPeak(s, t, which));
  }
  std::size_t partials(std::size_t s) const { return costs_.partials(s); }
  std::int32_t partialSaved(std::size_t s, std::size_t which) const {
    return partial_saved_[s][which];
  }
  std::int32_t partialTime(std::size_t s, std::size_t t, std::size_t which) const {
    return toTime(costs_.partialNs(s, t, which));
  }
  std::int32_t dropTime(std::size_t s, std::size_t t) const {
    return (t + 1 == costs_.stages() ? save_time_ : run_time_)[s];
  }

  Nanoseconds toNs(std::int32_t time) const;

 private:
  std::int32_t toSlots(Bytes bytes) const;
  std::int32_t toTime(Nanoseconds time) const;

  const ChainCosts& costs_;
  SlotGrid grid_;
  double time_unit_ = 1;  // ns
  std::int32_t bound_ = 0;
  std::vector<std::int32_t> input_, saved_, run_time_, save_time_;
  std::vector<std::vector<std::int32_t>> partial_saved_;
};

}  // namespace ebbtide::scheduler
