// A change of budgets and what the ranks said to it, for the verb and for `top`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "live/running_job.hpp"

namespace ebbtide::cli {

// Is it a budget, in any of its forms? Throws std::invalid_argument where it is none.
void checkBudget(const std::string& size);

// `size` as a user wrote it: the ranks say what a share is of. Throws std::invalid_argument where
// it is none. A rank's problem ends with the command to type, where it told its smallest budget.
// `force`: also a budget with which the run may fail with out of memory.
std::vector<RankAnswer> changeBudget(RunningJob& job, const std::string& size,
                                     std::chrono::milliseconds limit, bool force = false);

// "budget 20.00 GiB (before: 30.00 GiB), from step 12 on; predicted: …"
std::string describeBudget(const RankAnswer& answer);

}  // namespace ebbtide::cli
