// "checkmate-milp", "checkmate-lp": Checkmate (Jain et al. 2020) as the baselines of moccasin2023,
// solved by HiGHS.
#pragma once

#include "ebbtide/scheduler/planner.hpp"

namespace ebbtide::scheduler {

class CheckmatePlanner : public Planner {
 public:
  enum class Method {
    kMilp,  // branch and bound, from our own incumbent
    kLp,    // relaxation, then two-stage rounding
  };

  explicit CheckmatePlanner(Method method) : method_(method) {}

  PlannerInfo info() const override;
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override;

  // The matrices are ops × ops. Beyond this many coefficients (some 250 ops of four inputs each)
  // nothing is solved: the result is what the search for a start found.
  static constexpr std::size_t kMostSize = 1'000'000;

 private:
  Method method_;
};

}  // namespace ebbtide::scheduler
