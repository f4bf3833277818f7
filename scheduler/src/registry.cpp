#include <stdexcept>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/shown_text.hpp"
#include "planners/auto/auto_planner.hpp"
#include "planners/baselines/chen_planner.hpp"
#include "planners/baselines/dtr_planner.hpp"
#include "planners/baselines/greedy_remat_planner.hpp"
#include "planners/chain/periodic_planner.hpp"
#include "planners/chain/revolve_planner.hpp"
#include "planners/chain/rotor_planner.hpp"
#include "planners/greedy/greedy_planner.hpp"
#include "planners/lower_sets/kusumoto_planner.hpp"
#include "planners/staged/checkmate_planner.hpp"
#include "planners/staged/moccasin_local_planner.hpp"
#include "planners/staged/moccasin_planner.hpp"
#include "planners/treewidth/pwremat_planner.hpp"
#include "planners/treewidth/twremat_planner.hpp"

namespace ebbtide::scheduler {

const std::vector<std::unique_ptr<Planner>>& planners() {
  // Never destroyed: a thread may still plan while the process exits.
  static const auto& all = *[] {
    auto list = std::make_unique<std::vector<std::unique_ptr<Planner>>>();
    list->push_back(std::make_unique<GreedyPlanner>());
    list->push_back(std::make_unique<KusumotoPlanner>(LowerSetScope::kPruned));
    list->push_back(std::make_unique<KusumotoPlanner>(LowerSetScope::kAll));
    list->push_back(std::make_unique<MoccasinLocalPlanner>());
    list->push_back(std::make_unique<MoccasinPlanner>());
    list->push_back(std::make_unique<CheckmatePlanner>(CheckmatePlanner::Method::kMilp));
    list->push_back(std::make_unique<CheckmatePlanner>(CheckmatePlanner::Method::kLp));
    list->push_back(std::make_unique<PeriodicPlanner>());
    list->push_back(std::make_unique<RevolvePlanner>());
    list->push_back(std::make_unique<RotorPlanner>(RotorPlanner::Checkpoints::kPersistent));
    list->push_back(std::make_unique<RotorPlanner>(RotorPlanner::Checkpoints::kFloating));
    list->push_back(std::make_unique<ChenPlanner>());
    list->push_back(std::make_unique<DtrPlanner>());
    list->push_back(std::make_unique<GreedyRematPlanner>());
    list->push_back(std::make_unique<TwRematPlanner>(false));
    list->push_back(std::make_unique<TwRematPlanner>(true));
    list->push_back(std::make_unique<PwRematPlanner>());
    list->push_back(std::make_unique<AutoPlanner>());
    return list.release();
  }();
  return all;
}

const Planner& planner(std::string_view name) {
  std::string known;
  for (const auto& one : planners()) {
    const std::string its_name = one->info().name;
    if (its_name == name) return *one;
    known += (known.empty() ? "" : ", ") + its_name;
  }
  throw std::invalid_argument("unknown planner '" + shownText(name) + "'; known: " + known);
}

}  // namespace ebbtide::scheduler
