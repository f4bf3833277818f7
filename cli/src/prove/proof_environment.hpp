// The environments in which `ebbtide prove` runs a command.
#pragma once

#include <string>

#include "launch/environment.hpp"

namespace ebbtide::cli {

// Nothing of Ebbtide's but EBBTIDE_PROOF.
Environment plainEnvironment(const Environment& own, const std::string& proof);

// All of the user's variables. `budget`, unless it is empty, takes the place of EBBTIDE_BUDGET.
// Throws std::invalid_argument where neither is there, or EBBTIDE=0.
Environment budgetEnvironment(const Environment& own, const std::string& budget,
                              const std::string& proof, const std::string& report);

}  // namespace ebbtide::cli
