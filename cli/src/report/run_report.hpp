// RunReport: what EBBTIDE_REPORT left of one rank's run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/budget_margins.hpp"

namespace ebbtide::cli {

// Figures that an older version did not write are nothing. Texts are as the file has them.
struct RunReport {
  struct Plan {
    std::string planner;
    std::optional<double> overhead_ratio, plan_seconds;
    std::optional<std::int64_t> recomputed_ops, replays_ahead, decoded_values, offloaded_values,
        offloaded_bytes, active_from_step;
  };

  std::string path;
  std::string version, torch_version, mode, dominating;
  int rank = 0;
  scheduler::BudgetMargins margins;
  std::int64_t world_size = 1, steps = 0;
  std::optional<std::int64_t> budget_bytes, base_bytes, activation_bytes, recomputable_bytes,
      plain_peak_bytes, peak_bytes, mapped_peak_bytes, predicted_peak_bytes,
      smallest_feasible_bytes, violations, recomputed_ops, decoded_values, offloaded_bytes,
      spilled_bytes, others_bytes, rehearsed_steps, needed_bytes, whole_bytes, available_bytes,
      first_planned_step;
  std::optional<double> first_step_seconds, median_step_seconds, total_step_seconds,
      recompute_seconds;
  bool pass_through = false;
  std::optional<Plan> plan;
  std::vector<std::pair<double, double>> timeline;  // seconds, live bytes, of one late step
  std::vector<std::pair<double, double>> mapped;    // the same of what was mapped; may be empty
  std::map<std::string, std::int64_t> kept_bytes;   // by reason
  // By op: replays compared with their originals, and those that differed.
  std::map<std::string, std::int64_t> audited, rejected;

  // What the budget bounds: the mapped peak.
  std::optional<double> shareOfBudget() const;
  // Of the time in steps; of as many median ones, where an older version did not sum it up.
  std::optional<double> recomputeShare() const;
  std::string name() const;  // "rank 3"
};

// Throws std::invalid_argument that begins with the path: no JSON, or none of ours.
RunReport readRunReport(const std::string& path);
// All files of a folder whose names end with .json, by rank.
std::vector<RunReport> readRunReports(const std::string& folder);

}  // namespace ebbtide::cli
