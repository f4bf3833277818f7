// RankPlan: the plan that a running rank trains by, as `ebbtide plan` prints it.
#pragma once

#include <string>

#include "live/running_job.hpp"

namespace ebbtide::cli {

// Several lines, of an answer of /v1/plan without a problem; no server's letter moves the cursor.
std::string describePlan(const RankAnswer& answer);

// Asks, prints, and returns the exit code.
int showPlans(const JobInput& input, bool json);

}  // namespace ebbtide::cli
