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

  // In force at the end; the smallest ones that steps need; 100 % and `auto` of the memory.
  struct Budget {
    std::optional<std::int64_t> bytes, smallest_feasible_bytes, needed_bytes, whole_bytes,
        available_bytes, violations;
    scheduler::BudgetMargins margins;
  };

  // The most at one moment. Plain: of a step with nothing dropped.
  struct Peaks {
    std::optional<std::int64_t> plain_bytes, live_bytes, mapped_bytes, predicted_bytes;
  };

  // What a step holds, and others of a GPU. Dominating: the ops whose saved results take most.
  struct Memory {
    std::optional<std::int64_t> base_bytes, activation_bytes, recomputable_bytes, others_bytes;
    std::map<std::string, std::int64_t> kept_bytes;  // by reason
    std::string dominating;
  };

  // How many, what they took, and the first one, from 0, that had a plan.
  struct Steps {
    std::int64_t count = 0;
    std::optional<double> first_seconds, median_seconds, total_seconds;
    std::optional<std::int64_t> first_planned;
  };

  // Of the whole run: what was given back, and moved to the host.
  struct Totals {
    std::optional<std::int64_t> recomputed_ops, decoded_values, offloaded_bytes, spilled_bytes,
        dropped_online_bytes;
    std::optional<double> recompute_seconds;
  };

  // Of one late step, by rising time.
  struct Timeline {
    std::vector<std::pair<double, double>> live;    // seconds, live bytes
    std::vector<std::pair<double, double>> mapped;  // the same of what was mapped; may be empty
  };

  // Of replays; rehearsed: steps in which some were compared.
  struct Checks {
    std::optional<std::int64_t> rehearsed_steps;
    // By op: replays compared with their originals, and those that differed.
    std::map<std::string, std::int64_t> audited, rejected;
  };

  std::string path;
  std::string version, torch_version, mode;
  int rank = 0;
  std::int64_t world_size = 1;
  bool pass_through = false;
  bool ended = true;  // false: the process was killed, or ended by os._exit()
  std::optional<Plan> plan;
  Budget budget;
  Peaks peaks;
  Memory memory;
  Steps steps;
  Totals totals;
  Timeline timeline;
  Checks checks;

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
