#include "rotor_planner.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "chain_search.hpp"
#include "floating_dp.hpp"
#include "persistent_dp.hpp"
#include "planner_options.hpp"

namespace ebbtide::scheduler {
namespace {

// Longer chains have neighbouring stages joined.
constexpr std::size_t kMostStages = 512;
// A first look with few stages gives a time to beat, which spares most of the work of the program
// on all of them.
constexpr std::size_t kFirstStages = 80;
constexpr std::int64_t kFirstSlots = 400;
constexpr std::int64_t kSlots = 4096;
constexpr std::int64_t kMostTableEntries = std::int64_t{1} << 28;
// The floating program's table grows with the cube of the stages.
constexpr std::int64_t kMostFloatingEntries = std::int64_t{1} << 28;
constexpr std::int64_t kLeastFloatingSlots = 40;
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
         a.run_ns == b.run_ns && a.save_ns == b.save_ns;
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

struct Resolution {
  std::int64_t slots;
  SlotRounding rounding;
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

// The program of one kind for each chain; equal chains share it.
template <typename Program>
void runProgram(ChainSearch& search, Bytes target, Resolution resolution) {
  const SlotGrid grid = gridFor(search, target, resolution);
  const auto late = [&search] { return search.late(); };
  Programs programs;
  for (std::size_t i = 0; i < search.chains().size(); ++i) {
    const ChainCosts& costs = search.chains()[i].costs;
    if (i > 0 && sameCosts(costs, search.chains()[i - 1].costs)) {
      programs.push_back(programs.back());
    } else {
      programs.push_back(std::make_shared<Program>(costs, grid, search.best().recompute_ns, late));
    }
  }
  BudgetScan(search, programs, target).run(grid.slots);
}

}  // namespace

PlannerInfo RotorPlanner::info() const {
  const std::vector<PlannerOption> options = {
      {"slots", std::to_string(kSlots), "parts into which the budget is divided"},
      {"rounding", "nearest|up",
       "of sizes to slots; up is the paper's and leaves part of the budget unused"}};
  if (checkpoints_ == Checkpoints::kPersistent) {
    return {"rotor-persistent", "rotor2024 section 4.4, Algorithms 3 and 4",
            "Least time among memory-persistent schedules of the chain that the graph contracts "
            "to, up to the rounding of sizes to slots.",
            options};
  }
  return {
      "rotor-floating", "rotor2024 section 4.3, Algorithms 1 and 2",
      "Least time among the schedules of the chain, up to the rounding of sizes to slots; never "
      "worse than rotor-persistent.",
      options};
}

PlanResult RotorPlanner::plan(const Graph& graph, Bytes budget_bytes,
                              const PlannerOptions& options) const {
  rejectUnknownOptions(options, info());
  const std::int64_t slots =
      std::clamp<std::int64_t>(integerOption(options, "slots", kSlots), 1, 1 << 20);
  const bool up = choiceOption(options, "rounding", {"nearest", "up"}, "nearest") == "up";
  const SlotRounding rounding = up ? SlotRounding::kUp : SlotRounding::kNearest;
  ChainSearch search(graph, budget_bytes, options, info().name);
  if (search.best().feasible || search.late()) return search.best();
  search.contract(kMostStages);
  const std::size_t stages = search.mostStages();
  if (stages == 0) return search.best();
  search.considerSmallestPeak();
  const Bytes target = std::max(budget_bytes, search.best().peak_bytes);
  if (stages > 2 * kFirstStages) {
    search.contract(kFirstStages);
    runProgram<PersistentProgram>(search, target, {kFirstSlots, SlotRounding::kNearest});
    search.contract(kMostStages);
  }
  const std::int64_t most_slots = std::max<std::int64_t>(
      kMostTableEntries * 2 / static_cast<std::int64_t>(stages * stages), 64);
  runProgram<PersistentProgram>(search, target, {std::min(slots, most_slots), rounding});
  const std::int64_t floating_slots =
      std::min(slots, kMostFloatingEntries / static_cast<std::int64_t>(stages * stages * stages));
  if (checkpoints_ == Checkpoints::kFloating && floating_slots >= kLeastFloatingSlots) {
    runProgram<FloatingProgram>(search, target, {floating_slots, rounding});
  }
  return search.best();
}

}  // namespace ebbtide::scheduler
