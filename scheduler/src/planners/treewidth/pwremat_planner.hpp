// "pwremat": rematerialization along a path decomposition (kumar2019, section 5 and appendix A).
#pragma once

#include <optional>

#include "ebbtide/scheduler/planner.hpp"
#include "planners/treewidth/op_order.hpp"
#include "planners/treewidth/path_decomposition.hpp"
#include "search/plan_choice.hpp"

namespace ebbtide::scheduler {

class PwRematPlanner : public Planner {
 public:
  PlannerInfo info() const override;
  // Keeps everything where that fits.
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;
};

class PwRemat {
 public:
  explicit PwRemat(const Graph& graph);

  // With the spine: p and b of Theorem 22 are its largest bag and its number of bags.
  const PathDecomposition& path() const { return path_; }
  // Algorithm 3. Ranges of at most `leaf_bags` bags are computed in the order of the spine; nothing
  // if that goes beyond the limit.
  std::optional<Schedule> schedule(std::size_t leaf_bags, const WorkLimit& limit) const;

 private:
  const Graph& graph_;
  OpOrder order_;
  PathDecomposition path_;
  std::vector<OpId> spine_;
};

}  // namespace ebbtide::scheduler
