#pragma once

#include <string>

namespace ebbtide::cli {

// Both throw std::invalid_argument naming the path and the system's reason.
std::string readText(const std::string& path);
// All of it or nothing, as a metrics::WholeFile: what was there stays where there is no room.
void writeText(const std::string& path, const std::string& text);

}  // namespace ebbtide::cli
