// Where running jobs are found: a folder for each, with a socket for each of its ranks here.
#pragma once

#include <string>
#include <vector>

namespace ebbtide::cli {

struct FoundRank {
  int rank = 0;
  std::string path;
};

struct FoundJob {
  std::string id;
  std::vector<FoundRank> ranks;  // that listen, by rank
  std::vector<int> dead;         // ranks whose sockets nobody listens on any more
};

// That of this process's environment: the one that a rank started in it would use.
std::string socketFolder();

// By id; those without a live rank too. Empty where there is no such folder. Throws
// std::invalid_argument where it is another user's: what listens there could be anybody's.
std::vector<FoundJob> findJobs(const std::string& folder);

// The sockets of one job as they lie there now, by rank; nobody is asked whether he listens.
std::vector<FoundRank> socketsOf(const std::string& job_folder);

}  // namespace ebbtide::cli
