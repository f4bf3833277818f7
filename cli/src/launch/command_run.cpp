#include "launch/command_run.hpp"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "given_seconds.hpp"
#include "given_text.hpp"
#include "shell/command_words.hpp"

namespace ebbtide::cli {

bool CommandRun::loadedTheModule() const {
  return std::filesystem::exists(folder + "/loaded");
}

std::string CommandRun::ended() const {
  return fmt::format("the {} run {}", name, end.text());
}

std::optional<std::chrono::seconds> CommandOptions::limit() const {
  if (!(limit_seconds > 0)) return std::nullopt;
  return std::chrono::seconds(std::lround(std::ceil(limit_seconds)));
}

void addCommand(CLI::App& verb, CommandOptions& options) {
  verb.add_option("COMMAND", options.command,
                  "what trains, after the options and --: python train.py, or torchrun ...")
      ->required()
      ->type_name("FILE");
}

void addBudget(CLI::App& verb, CommandOptions& options, const std::string& description) {
  verb.add_option("--budget", options.budget, description)->check(givenText())->type_name("SIZE");
}

void addRunOptions(CLI::App& verb, CommandOptions& options) {
  verb.add_option("--timeout", options.limit_seconds, "of one run (default: none)")
      ->check(givenSeconds(0, 1e7))
      ->type_name("SECONDS");
  verb.add_option("--keep", options.kept, "a new folder for what the runs print and leave")
      ->check(givenText())
      ->type_name("FOLDER");
  verb.add_flag("--json", options.json, "one JSON document on stdout");
}

int interruptibly(CommandOptions& options, const std::function<int(const Interrupts&)>& runs) {
  for (std::string& word : options.command) word = unguarded(word);
  Interrupts interrupts;
  const int exit_code = runs(interrupts);
  interrupts.raiseNoted();
  return exit_code;
}

void refuseTurnedOff(const Environment& own, const std::string& so) {
  if (valueOf(own, "EBBTIDE") != "0") return;
  throw std::invalid_argument(fmt::format("EBBTIDE=0 turns Ebbtide off, so {}: unset EBBTIDE", so));
}

std::string noTorchSeen(const std::string& what) {
  return fmt::format(
      "no {} was seen: no process of the command imported torch with Ebbtide beside it. Install "
      "Ebbtide for that Python, and do not set TORCH_DEVICE_BACKEND_AUTOLOAD=0",
      what);
}

void printProblem(const CommandRun& run, bool failed, const std::string& problem,
                  const RunFolder& folder) {
  printOutput(run.output(), run.name, run.end.text(), folder);
  if (!failed) fmt::print(stderr, "ebbtide: {}\n", problem);
}

void printJson(const nlohmann::json& tree) {
  fmt::print("{}\n", tree.dump(1, ' ', true, nlohmann::json::error_handler_t::replace));
}

}  // namespace ebbtide::cli
