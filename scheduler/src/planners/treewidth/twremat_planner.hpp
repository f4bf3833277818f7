// "twremat": Algorithm 1 of kumar2019, section 3; "twremat-k": its recursion stopped early, section
// 4.3.
#pragma once

#include <optional>

#include "ebbtide/scheduler/planner.hpp"
#include "planners/treewidth/op_order.hpp"
#include "planners/treewidth/separator_tree.hpp"
#include "search/plan_choice.hpp"

namespace ebbtide::scheduler {

class TwRematPlanner : public Planner {
 public:
  explicit TwRematPlanner(bool stops_early) : stops_early_(stops_early) {}
  PlannerInfo info() const override;
  // twremat keeps everything where that fits. twremat-k, unless the option "k" says where to stop,
  // takes the least recompute time within the budget over k = 1, 2, 4, ... .
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;

 private:
  bool stops_early_;
};

// The schedules of one graph for any k: one tree decomposition serves them all.
class TwRemat {
 public:
  explicit TwRemat(const Graph& graph);

  std::size_t width() const { return decomposition_.width(); }
  std::size_t bags() const { return decomposition_.bags.size(); }
  // Parts of fewer than k bags are computed in program order. Nothing if that goes
  // beyond the limit.
  std::optional<Schedule> schedule(std::size_t k, const WorkLimit& limit) const;

 private:
  const Graph& graph_;
  OpOrder order_;
  TreeDecomposition decomposition_;
  SeparatorTree separators_;
};

}  // namespace ebbtide::scheduler
