// What this machine lends a training process: ports, folders, memory, tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "doctor/finding.hpp"

namespace ebbtide::cli {

// `is_given`: by its variable; else a job takes the next free one.
Finding portFinding(const std::string& address, std::uint16_t port, bool is_given);
Finding socketFolderFinding(const std::string& folder);
Finding spillFolderFinding(const std::string& folder);
Finding toolkitFinding();  // nvcc, which only tests on a GPU need
// `site_packages`: where the ortools wheel is looked for; empty: where planners look for it.
Finding solverFinding(const std::string& site_packages);

// The least of the limits that the process's control groups set, of version 1 and 2, under `root`;
// `membership`: /proc/self/cgroup's text.
std::optional<std::int64_t> groupLimitBytes(const std::string& membership, const std::string& root);
Finding memoryFinding(std::int64_t machine_bytes, std::optional<std::int64_t> group_limit_bytes);

// `site_packages`: of the Python that trains; empty: not known.
Findings machineFindings(const std::string& site_packages);

}  // namespace ebbtide::cli
