#include "shell/command_tree.hpp"

#include <algorithm>

namespace ebbtide::cli {
namespace {

// CLI11 appends what validators check: "TEXT:{real,paper}", "NUMBER:INT in [1 - 1024]".
std::string withoutChecks(const std::string& type) {
  return type.substr(0, type.find(':'));
}

// HOST:PORT has a colon of its own, so that the whole is taken where a name was given.
std::string valueOf(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  if (type.starts_with("HOST:PORT")) return "HOST:PORT";
  const std::string value = withoutChecks(type);
  if (value == "TEXT" || value.empty() || value.front() == '{') return "TEXT";
  return value == "INT" || value == "UINT" || value == "FLOAT" ? "NUMBER" : value;
}

std::vector<std::string> choicesOf(const CLI::Option& option) {
  std::vector<std::string> choices;
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return choices;
  std::string rest = type.substr(begin + 1, end - begin - 1);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    choices.push_back(rest.substr(0, comma));
    rest.erase(0, comma + 1);
  }
  return choices;
}

void addOptions(CommandFacts& facts, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    facts.options.push_back(factsOf(*option));
  }
}

}  // namespace

OptionFacts factsOf(const CLI::Option& option) {
  OptionFacts facts{.names = {},
                    .meaning = option.get_description(),
                    .value = valueOf(option),
                    .choices = choicesOf(option),
                    .otherwise = option.get_default_str(),
                    .group = option.get_group(),
                    .positional = option.get_positional(),
                    .required = option.get_required(),
                    .repeated = option.get_expected_max() > 1};
  if (facts.positional) {
    facts.names = {option.get_name(true)};
    return facts;
  }
  for (const std::string& name : option.get_snames()) facts.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  return facts;
}

std::vector<OptionFacts> CommandFacts::positionals() const {
  std::vector<OptionFacts> found;
  std::copy_if(options.begin(), options.end(), std::back_inserter(found),
               [](const OptionFacts& option) { return option.positional; });
  return found;
}

std::vector<OptionFacts> CommandFacts::flags() const {
  std::vector<OptionFacts> found;
  std::copy_if(options.begin(), options.end(), std::back_inserter(found),
               [](const OptionFacts& option) { return !option.positional; });
  return found;
}

CommandFacts factsOf(const CLI::App& app) {
  CommandFacts facts{.name = app.get_name(),
                     .meaning = app.get_description(),
                     .group = app.get_group(),
                     .options = {},
                     .commands = {}};
  addOptions(facts, app);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name().empty()) {  // a group of options, which belong to this verb
      addOptions(facts, *command);
    } else if (!command->get_group().empty()) {
      facts.commands.push_back(factsOf(*command));
    }
  }
  return facts;
}

}  // namespace ebbtide::cli
