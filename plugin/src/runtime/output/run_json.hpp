// RunJson: what the report and a rank's answers tell alike. Torch-free.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "plan/plan.hpp"
#include "runtime/run/run_figures.hpp"

namespace ebbtide::plugin {

// What is told of a plan, wherever it is told; null: there is none. `active_from_step`: negative:
// it is not in force yet.
nlohmann::json planSummary(const Plan* plan, std::int64_t active_from_step);
// Lists of at most 2,000 moments; of what is mapped null where the allocator is not ours.
nlohmann::json timelineJson(const RunFigures::Timeline& timeline);

}  // namespace ebbtide::plugin
