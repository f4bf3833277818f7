#pragma once

#include <string>
#include <vector>

namespace ebbtide::metrics {

std::string machineName();  // as gethostname() has it; empty where it has none

// The domains in which this machine looks for names of one label, as resolv.conf(5) has them:
// what its administrator says, so no name in them is a stranger's.
std::vector<std::string> searchDomains(const std::string& file = "/etc/resolv.conf");

}  // namespace ebbtide::metrics
