// BudgetCurve: what each budget would cost the recorded step in time, found point by point so that
// other work of the planning thread comes between. Torch-free; of the planning thread, but for
// points().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "plan/plan_search.hpp"

namespace ebbtide::plugin {

class BudgetCurve {
 public:
  using Bytes = std::int64_t;

  static constexpr std::size_t kPoints = 9;

  struct Point {
    Bytes budget_bytes = 0;
    Bytes predicted_peak_bytes = 0;
    double overhead_ratio = 0;
    bool operator==(const Point&) const = default;
  };

  // The smallest budget whose plans may reach that peak.
  using BudgetFor = std::function<Bytes(Bytes peak_bytes)>;
  BudgetCurve(std::shared_ptr<const scheduler::Trace> trace, bool first_step, BudgetFor budget_for);

  bool done() const { return next_ == kPoints; }
  // Plans for one more budget, from the plain peak down to the least that is possible without the
  // host. Throws what the search throws.
  void addPoint(const PlanSearch& search);
  // By rising budget and falling overhead; a plan that fits less serves more.
  const std::vector<Point>& points() const { return points_; }

 private:
  const std::shared_ptr<const scheduler::Trace> trace_;
  const scheduler::TraceGraph graph_;
  const BudgetFor budget_for_;
  Bytes plain_peak_bytes_ = 0, least_bytes_ = 0;
  std::size_t next_ = 0;
  std::vector<Point> points_;
};

}  // namespace ebbtide::plugin
