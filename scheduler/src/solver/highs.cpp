#include "solver/highs.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/deadline.hpp"
#include "model/planner_options.hpp"
#include "solver/solver_worker.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr std::int64_t kDefaultNodes = 1'000;
constexpr double kUnlimited = 1e7;     // seconds
constexpr double kToAnswer = 0.05;     // of the time at hand, kept for the answer
constexpr double kMostToAnswer = 0.5;  // seconds

double secondsAllowed(Deadline deadline) {
  if (deadline == kNoDeadline) return kUnlimited;
  const double left =
      std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count();
  return std::max(0.0, left - std::min(kMostToAnswer, left * kToAnswer));
}

HighsSolution decoded(const std::string& bytes) {
  try {
    if (!bytes.empty()) return HighsSolution::fromBytes(bytes);
  } catch (const std::runtime_error&) {  // no answer then
  }
  return {};
}

}  // namespace

Highs::Highs(SolverWheel wheel, const PlannerOptions& options)
    : wheel_(std::move(wheel)), options_(options) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const bool timed = options.deadline != kNoDeadline;
  nodes_ = std::min(kMost, integerOption(options, "solver-work", timed ? kMost : kDefaultNodes));
}

PlannerOption Highs::workOption() {
  return {"solver-work", std::to_string(kDefaultNodes),
          "nodes of HiGHS's search tree; default with a deadline: until then"};
}

HighsSolution Highs::solve(const LinearProgram& program, const std::vector<double>& start,
                           const OnIncumbent& on_incumbent) const {
  HighsParameters parameters;
  parameters.seconds = secondsAllowed(options_.deadline);
  parameters.threads = static_cast<std::int32_t>(std::clamp(options_.threads, 1u, 64u));
  parameters.seed = static_cast<std::int32_t>(options_.seed & 0x7fffffff);
  parameters.nodes = static_cast<std::int32_t>(nodes_);
  parameters.start = start;
  SolverWorker worker(wheel_);
  const SolverAnswer answer =
      worker.solve({Solver::kHighs, program.toBytes(), parameters.toBytes(), options_.cancelled},
                   options_.deadline, [&](const std::string& bytes) {
                     if (on_incumbent) on_incumbent(decoded(bytes));
                   });
  answer.rejectRefusal();
  HighsSolution solution = decoded(answer.bytes);
  if (answer.end != SolverAnswer::End::kFinished) {
    solution.status = HighsSolution::Status::kUnproven;
    solution.row_duals.clear();
  }
  return solution;
}

}  // namespace ebbtide::scheduler
