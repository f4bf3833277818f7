// CommandRun: one run of the user's command. `prove` and `fit` make several runs: this header also
// has their common options, and what they say about a run.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launch/environment.hpp"
#include "launch/interrupts.hpp"
#include "launch/run_folder.hpp"
#include "launch/watched_run.hpp"

namespace CLI {
class App;
}

namespace ebbtide::cli {

struct CommandRun {
  std::string name;    // "second plain"
  std::string folder;  // that it alone writes to
  RunEnd end;

  static std::string outputIn(const std::string& folder) { return folder + "/output.txt"; }
  std::string output() const { return outputIn(folder); }
  bool loadedTheModule() const;  // was there a torch that found Ebbtide?
  std::string ended() const;     // "the plain run ended with exit status 1"
};

// Of all runs, as the user gave them.
struct CommandOptions {
  std::vector<std::string> command;
  std::string budget;        // "": EBBTIDE_BUDGET, or none
  std::string kept;          // folder that stays; "": none
  double limit_seconds = 0;  // of one run; 0: none
  bool json = false;

  std::optional<std::chrono::seconds> limit() const;  // in whole seconds, rounded up
};

// The options refer to what outlives `verb`. --timeout, --keep and --json stand last in the help.
void addCommand(CLI::App& verb, CommandOptions& options);
void addBudget(CLI::App& verb, CommandOptions& options, const std::string& description);
void addRunOptions(CLI::App& verb, CommandOptions& options);

// Runs `runs` with the command as it was written, and returns its exit code. A signal that comes
// meanwhile is raised again when `runs` has cleaned up.
int interruptibly(CommandOptions& options, const std::function<int(const Interrupts&)>& runs);

// Throws std::invalid_argument where EBBTIDE=0: "… turns Ebbtide off, so nothing is measured: …".
void refuseTurnedOff(const Environment& own, const std::string& so);

// "no update was seen: no process of the command imported torch …"
std::string noTorchSeen(const std::string& what);

// On stderr: the end of what the run said and, where it did not fail itself, the problem.
void printProblem(const CommandRun& run, bool failed, const std::string& problem,
                  const RunFolder& folder);

// On stdout.
void printJson(const nlohmann::json& tree);

}  // namespace ebbtide::cli
