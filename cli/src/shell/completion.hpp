#pragma once

#include <string>

#include "shell/command_tree.hpp"

namespace ebbtide::cli {

// A script that the shell reads, so that the tab key completes commands, options and their values.
std::string bashCompletion(const CommandFacts& program);
std::string zshCompletion(const CommandFacts& program);
std::string fishCompletion(const CommandFacts& program);

}  // namespace ebbtide::cli
