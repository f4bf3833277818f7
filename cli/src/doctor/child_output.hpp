// What a program prints, within a time.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace ebbtide::cli {

struct ChildOutput {
  std::string text;     // stdout, at most 1 MiB
  std::string problem;  // not empty: it could not be started, did not end in time, or failed
};

// `command[0]` is looked for in PATH. Without stdin; stderr is thrown away. Variables that begin
// with EBBTIDE are taken from its environment: torch starts the plugin where they are set.
ChildOutput outputOf(const std::vector<std::string>& command, std::chrono::seconds limit);

}  // namespace ebbtide::cli
