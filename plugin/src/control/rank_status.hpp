// RankStatus: what a rank answers about itself, as copies that no lock guards. Torch-free.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/gpu_identity.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "observe/executor_counters.hpp"
#include "plan/plan.hpp"
#include "runtime/run/run_figures.hpp"
#include "runtime/steps/recent_steps.hpp"

namespace ebbtide::plugin {

struct RankStatus {
  struct Rank {
    int rank = 0, local_rank = 0, world_size = 1, local_world_size = 1;
    std::string job_id, host, version, torch_version, device = "cpu";
    std::int64_t pid = 0;
    std::optional<GpuIdentity> gpu;
    std::vector<std::int32_t> stages;
  };
  struct Memory {
    std::optional<std::int64_t> budget_bytes;
    std::int64_t allocated_bytes = 0, mapped_bytes = 0;
    std::int64_t cached_bytes = 0;  // when the last step began or ended
    std::int64_t peak_allocated_bytes = 0, peak_mapped_bytes = 0;
    std::int64_t base_bytes = 0, margin_bytes = 0, step_peak_bytes = 0;
    std::int64_t predicted_peak_bytes = 0;  // 0: none is known
  };
  struct Totals {
    ExecutorCounters::Totals executor;
    std::int64_t budget_violations = 0, audited = 0, rejected = 0;
  };

  Rank rank;
  std::string state = "starting";  // "training", "paused", "pass-through", "ended"
  std::string mode = "measure";    // "budget", "paused"
  bool stops_on_infeasible = true;
  std::int64_t steps = 0;
  double first_step_seconds = 0;
  RecentSteps recent;
  std::optional<RecentSteps::Medians> step_time;
  Memory memory;
  Totals totals;
  std::shared_ptr<const Plan> plan;                 // nullptr: none
  std::int64_t active_from_step = -1;               // of the plan; -1: not in force yet
  std::int64_t smallest_feasible_budget_bytes = 0;  // 0: not known
};

// A recorded plan and step, as they are drawn.
struct PlanView {
  int rank = 0;
  std::string mode = "measure";      // as RankStatus has it
  std::shared_ptr<const Plan> plan;  // nullptr: none
  std::int64_t active_from_step = -1, plain_peak_bytes = 0;
  std::optional<std::int64_t> budget_bytes;
  std::shared_ptr<const RunFigures::Timeline> timeline;
  std::shared_ptr<const PlanPicture> picture;  // nullptr: not drawn yet
};

// As the description of the interface (openapi.json) has it.
std::string statusJson(const RankStatus& status);
std::string planJson(const PlanView& view);

}  // namespace ebbtide::plugin
