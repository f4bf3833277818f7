// The verbs of the program, one file each.
#pragma once

#include <CLI/CLI.hpp>

namespace ebbtide::cli {

// Part of the command line's contract. 2 comes with a message on stderr: what is wrong and where.
enum ExitCode : int { kFeasible = 0, kFailure = 1, kBadInput = 2, kInfeasible = 3 };

// Each adds a subcommand that runs while the command line is parsed and sets `exit_code`, which
// outlives `app`. What goes wrong leaves as std::invalid_argument (bad input) or another exception.
void addPlanners(CLI::App& app, int& exit_code);
void addPlan(CLI::App& app, int& exit_code);
void addCheck(CLI::App& app, int& exit_code);
void addCurve(CLI::App& app, int& exit_code);
void addPlace(CLI::App& app, int& exit_code);
void addSimulate(CLI::App& app, int& exit_code);

}  // namespace ebbtide::cli
