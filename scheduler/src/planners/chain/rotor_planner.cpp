#include "planners/chain/rotor_planner.hpp"

#include <algorithm>
#include <memory>

#include "model/planner_options.hpp"
#include "planners/chain/budget_scan.hpp"
#include "planners/chain/chain_search.hpp"
#include "planners/chain/floating_dp.hpp"
#include "planners/chain/persistent_dp.hpp"

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

template <typename Program>
std::shared_ptr<const ChainProgram> make(const ChainCosts& costs, const SlotGrid& grid,
                                         Nanoseconds most_ns, const std::function<bool()>& late) {
  return std::make_shared<Program>(costs, grid, most_ns, late);
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
    scanBudget(search, target, {kFirstSlots, SlotRounding::kNearest}, make<PersistentProgram>);
    search.contract(kMostStages);
  }
  const std::int64_t most_slots = std::max<std::int64_t>(
      kMostTableEntries * 2 / static_cast<std::int64_t>(stages * stages), 64);
  scanBudget(search, target, {std::min(slots, most_slots), rounding}, make<PersistentProgram>);
  const std::int64_t floating_slots =
      std::min(slots, kMostFloatingEntries / static_cast<std::int64_t>(stages * stages * stages));
  if (checkpoints_ == Checkpoints::kFloating && floating_slots >= kLeastFloatingSlots) {
    scanBudget(search, target, {floating_slots, rounding}, make<FloatingProgram>);
  }
  return search.best();
}

}  // namespace ebbtide::scheduler
