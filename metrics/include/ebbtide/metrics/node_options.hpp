// What a node view has to know of the ranks that it answers for.
#pragma once

#include <chrono>
#include <string>

namespace ebbtide::metrics {

struct NodeOptions {
  std::string folder = {};  // of the job; has a socket rank-<R>.sock of each rank of this machine;
                            // empty: none is asked
  std::string job_id = {};
  int rank = 0;                                  // the own one, which is asked directly
  int local_world_size = 1;                      // ranks expected
  std::chrono::milliseconds gather_limit{1000};  // for all of them to answer one question
};

}  // namespace ebbtide::metrics
