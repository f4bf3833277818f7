// HiGHS: solves a linear program, with or without integer columns, in a worker process.
#pragma once

#include <chrono>
#include <functional>

#include "ebbtide/scheduler/planner.hpp"
#include "solver/highs_message.hpp"
#include "solver/linear_program.hpp"
#include "solver/solver_wheel.hpp"

namespace ebbtide::scheduler {

class Highs {
 public:
  using OnIncumbent = std::function<void(const HighsSolution&)>;

  // Heeds deadline, seed, threads and workOption(). Throws std::invalid_argument for a work that is
  // no number.
  Highs(SolverWheel wheel, const PlannerOptions& options);

  static PlannerOption workOption();

  // The deadline counts, whatever the solver does; a worker that dies leaves its last incumbent.
  // Calls `on_incumbent` on this thread, for programs with integer columns. `start`, a solution to
  // begin from, may be empty. Throws std::invalid_argument, which says how to get HiGHS, where its
  // library cannot be used, and std::runtime_error where no process can be started.
  HighsSolution solve(const LinearProgram& program, const std::vector<double>& start = {},
                      const OnIncumbent& on_incumbent = {}) const;

 private:
  SolverWheel wheel_;
  PlannerOptions options_;
  std::int64_t nodes_;
};

}  // namespace ebbtide::scheduler
