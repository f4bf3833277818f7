#pragma once

#include <string>

namespace ebbtide::cli {

// Both throw std::invalid_argument naming the path and the system's reason.
std::string readText(const std::string& path);
void writeText(const std::string& path, const std::string& text);

}  // namespace ebbtide::cli
