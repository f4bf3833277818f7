// The verbs of the program. Those that change a run are in live/changes.cpp, those that print a
// shell's files in shell/shell_verbs.cpp; each of the others has a file of its name.
#pragma once

#include <CLI/App.hpp>
#include <memory>

#include "shell/exit_codes.hpp"

namespace ebbtide::cli {

// The whole tree of verbs and options: what is parsed, completed and described. Parsing runs the
// verb, which sets `exit_code`.
std::unique_ptr<CLI::App> makeProgram(int& exit_code);

// Each adds a subcommand that runs while the command line is parsed and sets `exit_code`, which
// outlives `app`. What goes wrong leaves as std::invalid_argument (bad input), NoRun or another
// exception.
void addPlanners(CLI::App& app, int& exit_code);
void addPlan(CLI::App& app, int& exit_code);
void addCheck(CLI::App& app, int& exit_code);
void addCurve(CLI::App& app, int& exit_code);
void addPlace(CLI::App& app, int& exit_code);
void addSimulate(CLI::App& app, int& exit_code);
// Of running jobs:
void addTop(CLI::App& app, int& exit_code);
void addStatus(CLI::App& app, int& exit_code);
void addBudget(CLI::App& app, int& exit_code);
void addReplan(CLI::App& app, int& exit_code);
void addPause(CLI::App& app, int& exit_code);
void addResume(CLI::App& app, int& exit_code);
void addTrace(CLI::App& app, int& exit_code);
void addSnapshot(CLI::App& app, int& exit_code);
// Of a script that is to train:
void addFit(CLI::App& app, int& exit_code);
void addProve(CLI::App& app, int& exit_code);
// Of runs that ended, of this machine, of this program:
void addReport(CLI::App& app, int& exit_code);
void addDoctor(CLI::App& app, int& exit_code);
void addCompletion(CLI::App& app, int& exit_code);
void addManual(CLI::App& app, int& exit_code);

}  // namespace ebbtide::cli
