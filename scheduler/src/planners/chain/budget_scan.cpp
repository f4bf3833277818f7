#include "planners/chain/budget_scan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ebbtide::scheduler {
namespace {

// Schedules tried above the best one found by bisection.
constexpr int kTries = 24;

using Programs = std::vector<std::shared_ptr<const ChainProgram>>;

// Greatest common divisor of all sizes: slots of so many bytes are exact.
Bytes commonBytes(const std::vector<ChainContraction>& chains) {
  Bytes common = 0;
  for (const ChainContraction& chain : chains) {
    const ChainCosts& c = chain.costs;
    for (const auto* list : {&c.input, &c.saved, &c.first_run, &c.first_save, &c.again_run,
                             &c.again_save, &c.held, &c.backward}) {
      for (Bytes bytes : *list) common = std::gcd(common, bytes);
    }
  }
  return std::max<Bytes>(common, 1);
}

bool sameCosts(const ChainCosts& a, const ChainCosts& b) {
  return a.input == b.input && a.saved == b.saved && a.first_run == b.first_run &&
         a.first_save == b.first_save && a.again_run == b.again_run &&
         a.again_save == b.again_save && a.held == b.held && a.backward == b.backward &&
         a.run_ns == b.run_ns && a.save_ns == b.save_ns && a.partial == b.partial;
}

// Finds the best schedules of the chains' programs that meet `target` bytes in the simulator.
class BudgetScan {
 public:
  BudgetScan(ChainSearch& search, const Programs& programs, Bytes target)
      : search_(search), programs_(programs), target_(target) {}

  void run(std::int32_t top) {
    if (!feasible(top) || fits(top)) return;
    std::int32_t low = -1, high = top;  // low fits or is too little for a schedule
    while (high - low > 1 && !search_.late()) {
      const std::int32_t middle = low + (high - low) / 2;
      const bool lower = feasible(middle) && !fits(middle);
      (lower ? high : low) = middle;
    }
    // Whether a schedule fits does not quite rise with its slots.
    std::int32_t slots = std::min(top, low + std::max(top / 100, 2));
    for (int i = 0; i < kTries && slots > low && !search_.late(); ++i) {
      if (feasible(slots) && fits(slots)) break;
      slots = stepBelow(slots);
    }
  }

 private:
  bool feasible(std::int32_t slots) const {
    return std::all_of(programs_.begin(), programs_.end(),
                       [&](const auto& program) { return program->feasible(slots); });
  }
  bool fits(std::int32_t slots) {
    std::vector<ChainSchedule> schedules;
    for (const auto& program : programs_) schedules.push_back(program->schedule(slots));
    return search_.consider(schedules) <= target_;
  }
  std::int32_t stepBelow(std::int32_t slots) const {
    std::int32_t step = -1;
    for (const auto& program : programs_) step = std::max(step, program->stepBelow(slots));
    return step;
  }

  ChainSearch& search_;
  const Programs& programs_;
  const Bytes target_;
};

// The budget in slots, and beyond it where a schedule may turn out smaller than its slots say.
SlotGrid gridFor(const ChainSearch& search, Bytes target, Resolution resolution) {
  SlotGrid grid{1, 0, resolution.rounding};
  const Bytes common = commonBytes(search.chains());
  const bool exact = target / common <= resolution.slots;
  const double wanted = static_cast<double>(std::max<Bytes>(target, 1));
  grid.slot_bytes =
      exact ? static_cast<double>(common) : wanted / static_cast<double>(resolution.slots);
  double above = 1;
  if (resolution.rounding == SlotRounding::kNearest) {
    const double predicted = static_cast<double>(search.predictedEverythingBytes());
    const double real = static_cast<double>(std::max<Bytes>(search.everythingBytes(), 1));
    above = std::clamp(predicted / real, 1.0, 1.5) * (exact ? 1.0 : 1.02);
  }
  grid.slots = static_cast<std::int32_t>(wanted * above / grid.slot_bytes * (1 + 1e-12));
  return grid;
}

}  // namespace

void scanBudget(ChainSearch& search, Bytes target_bytes, Resolution resolution,
                const MakeProgram& make) {
  const SlotGrid grid = gridFor(search, target_bytes, resolution);
  const auto late = [&search] { return search.late(); };
  Programs programs;
  for (std::size_t i = 0; i < search.chains().size(); ++i) {
    const ChainCosts& costs = search.chains()[i].costs;
    if (i > 0 && sameCosts(costs, search.chains()[i - 1].costs)) {
      programs.push_back(programs.back());
    } else {
      programs.push_back(make(costs, grid, search.best().recompute_ns, late));
    }
  }
  BudgetScan(search, programs, target_bytes).run(grid.slots);
}

}  // namespace ebbtide::scheduler
