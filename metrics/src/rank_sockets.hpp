// The sockets of the ranks of one machine and one job, as their folder has them.
#pragma once

#include <map>
#include <string>

namespace ebbtide::metrics {

// Paths by rank; none where there is no such folder. Throws std::bad_alloc, and nothing else.
std::map<int, std::string> rankSockets(const std::string& folder);

}  // namespace ebbtide::metrics
