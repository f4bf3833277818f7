// Asks the other ranks of a job on this machine, and waits for their answers.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "ebbtide/metrics/routes.hpp"

namespace ebbtide::metrics {

// By rank: what each rank whose socket is in the job's folder answers to GET `path` within `limit`,
// all together; a rank that does not is not in it. Throws std::bad_alloc, std::system_error.
std::map<int, std::string> askRanks(const std::string& job_folder, const std::string& path,
                                    std::chrono::milliseconds limit);
// The same of one rank alone; empty: it does not answer.
std::string askRank(int rank, const std::string& job_folder, const std::string& path,
                    std::chrono::milliseconds limit);

}  // namespace ebbtide::metrics
