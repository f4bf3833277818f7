// RankCurve: what other budgets would cost a running rank, as `ebbtide curve` prints it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "live/running_job.hpp"

namespace ebbtide::cli {

// A table, of an answer of /v1/curve without a problem; where the rank is now is among the budgets.
std::string describeCurve(const RankAnswer& answer);

// A rank makes its curve when it is asked: asks again until all are made or `wait` is over. A rank
// without a curve has its reason as a problem.
std::vector<RankAnswer> askCurves(RunningJob& job, std::chrono::milliseconds wait);

// Asks, prints, and returns the exit code.
int showCurves(const JobInput& input, std::chrono::milliseconds wait, bool json);

}  // namespace ebbtide::cli
