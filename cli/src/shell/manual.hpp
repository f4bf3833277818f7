#pragma once

#include <string>

#include "shell/command_tree.hpp"

namespace ebbtide::cli {

// The manual page in the language of man(7).
std::string manualOf(const CommandFacts& program, const std::string& version);

}  // namespace ebbtide::cli
