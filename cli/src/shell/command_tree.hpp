// CommandTree: the verbs and their options as CLI11 has them, for what is generated from them.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace ebbtide::cli {

struct OptionFacts {
  std::vector<std::string> names;  // "-h", "--help"; of a positional one its name alone
  std::string meaning;
  std::string value;                 // what it takes: "SECONDS"; empty for a flag
  std::vector<std::string> choices;  // all values that it takes; empty for many
  std::string otherwise;             // what holds without it; empty: nothing, or not told
  std::string group;                 // "Options" for most
  bool positional = false, required = false, repeated = false;

  bool takesFile() const { return value == "FILE" || value == "FOLDER"; }
};

struct CommandFacts {
  std::string name, meaning, group;
  std::vector<OptionFacts> options;  // positional ones too, in the order in which they were added
  std::vector<CommandFacts> commands;

  std::vector<OptionFacts> positionals() const;
  std::vector<OptionFacts> flags() const;  // all that are not positional
};

OptionFacts factsOf(const CLI::Option& option);
CommandFacts factsOf(const CLI::App& app);

}  // namespace ebbtide::cli
