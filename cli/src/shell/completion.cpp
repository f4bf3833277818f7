#include "shell/completion.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ebbtide::cli {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// Within '…', in all three shells' own ways.
std::string quoted(const std::string& text, const char* quote_inside) {
  std::string result = "'";
  for (const char letter : text) {
    letter == '\'' ? void(result += quote_inside) : void(result += letter);
  }
  return result + "'";
}

std::vector<std::string> namesOf(const std::vector<CommandFacts>& commands) {
  std::vector<std::string> names;
  for (const CommandFacts& command : commands) names.push_back(command.name);
  return names;
}

std::vector<std::string> namesOf(const std::vector<OptionFacts>& options) {
  std::vector<std::string> names;
  for (const OptionFacts& option : options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// --- bash ----------------------------------------------------------------------------------------

// What follows an option that takes a value.
std::string bashValues(const CommandFacts& command) {
  std::string text;
  for (const OptionFacts& option : command.flags()) {
    if (option.value.empty()) continue;
    text += fmt::format("        {}) ", joined(option.names, "|"));
    if (!option.choices.empty()) {
      text += fmt::format("_ebbtide_words '{}'", joined(option.choices, " "));
    } else {
      text += option.takesFile() ? "_ebbtide_files" : ":";
    }
    text += "; return ;;\n";
  }
  return text.empty() ? text : "      case $before in\n" + text + "      esac\n";
}

std::string bashCommand(const CommandFacts& command) {
  std::vector<std::string> words = namesOf(command.flags());
  bool files = false;
  for (const OptionFacts& option : command.positionals()) {
    files = files || option.takesFile();
    words.insert(words.end(), option.choices.begin(), option.choices.end());
  }
  return fmt::format("    {})\n{}      _ebbtide_words '{}'{}\n      ;;\n", command.name,
                     bashValues(command), joined(words, " "),
                     files ? "\n      [[ $current == -* ]] || _ebbtide_files" : "");
}

// --- zsh -----------------------------------------------------------------------------------------

// In what _arguments reads, [ ] : and \ mean something.
std::string zshText(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') result += '\\';
    result += letter;
  }
  return result;
}

std::string zshValue(const OptionFacts& option) {
  if (option.value.empty()) return "";
  std::string action = " ";
  if (!option.choices.empty()) action = "(" + joined(option.choices, " ") + ")";
  if (option.takesFile()) action = "_files";
  return ":" + zshText(option.positional ? option.names.front() : option.value) + ":" + action;
}

std::string zshCommand(const CommandFacts& command) {
  std::string text = fmt::format("        {})\n          _arguments", command.name);
  const auto add = [&](const std::string& spec) {
    text += " \\\n            " + quoted(spec, "'\\''");
  };
  for (const OptionFacts& option : command.flags()) {
    for (const std::string& name : option.names) {
      const char* often = option.repeated ? "*" : "";
      add(fmt::format("{}{}[{}]{}", often, name, zshText(option.meaning), zshValue(option)));
    }
  }
  int place = 1;
  for (const OptionFacts& option : command.positionals()) {
    if (option.repeated) {
      add("*" + zshValue(option));
    } else {
      add(fmt::format("{}{}", place++, zshValue(option)));
    }
  }
  return text + "\n          ;;\n";
}

}  // namespace

std::string bashCompletion(const CommandFacts& program) {
  std::string text = R"(# Completion of ebbtide for bash; made by: ebbtide completion bash
_ebbtide_words() {
  local word
  for word in $1; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$word")
  done
}

_ebbtide_files() {
  local file
  compopt -o filenames 2>/dev/null
  while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$current")
}

_ebbtide() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= at
  COMPREPLY=()
  # bash cuts --option=value into three words.
  if [[ $current == = ]]; then
    current=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((at = 1; at < COMP_CWORD; ++at)); do
    case ${COMP_WORDS[at]} in
)";
  text += fmt::format("      {}) command=${{COMP_WORDS[at]}}; break ;;\n",
                      joined(namesOf(program.commands), "|"));
  text += "    esac\n  done\n  case $command in\n";
  for (const CommandFacts& command : program.commands) text += bashCommand(command);
  std::vector<std::string> words = namesOf(program.commands);
  for (const std::string& name : namesOf(program.flags())) words.push_back(name);
  text +=
      fmt::format("    *)\n      _ebbtide_words '{}'\n      ;;\n  esac\n}}\n", joined(words, " "));
  return text + "complete -F _ebbtide ebbtide\n";
}

std::string zshCompletion(const CommandFacts& program) {
  std::string text =
      "#compdef ebbtide\n"
      "# Completion of ebbtide for zsh; made by: ebbtide completion zsh\n"
      "_ebbtide() {\n"
      "  local context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C";
  for (const OptionFacts& option : program.flags()) {
    for (const std::string& name : option.names) {
      text += " \\\n    " + quoted(fmt::format("{}[{}]", name, zshText(option.meaning)), "'\\''");
    }
  }
  text +=
      " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n"
      "  case $state in\n    command)\n      local -a commands=(\n";
  for (const CommandFacts& command : program.commands) {
    text += "        " + quoted(command.name + ":" + command.meaning, "'\\''") + "\n";
  }
  text +=
      "      )\n      _describe command commands\n      ;;\n    argument)\n      case $line[1] "
      "in\n";
  for (const CommandFacts& command : program.commands) text += zshCommand(command);
  text += "      esac\n      ;;\n  esac\n}\n";
  // Read by autoload from a folder of $fpath, or by source.
  return text +
         "if [[ $funcstack[1] == _ebbtide ]]; then\n  _ebbtide \"$@\"\nelse\n"
         "  compdef _ebbtide ebbtide\nfi\n";
}

std::string fishCompletion(const CommandFacts& program) {
  std::string text =
      "# Completion of ebbtide for fish; made by: ebbtide completion fish\n"
      "complete -c ebbtide -f\n";
  const auto add = [&](const std::string& when, const OptionFacts& option) {
    std::string line = "complete -c ebbtide -n " + quoted(when, "\\'");
    for (const std::string& name : option.names) {
      line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (!option.value.empty()) line += option.takesFile() ? " -r -F" : " -x";
    if (!option.choices.empty()) line += " -a " + quoted(joined(option.choices, " "), "\\'");
    text += line + " -d " + quoted(option.meaning, "\\'") + "\n";
  };
  for (const OptionFacts& option : program.flags()) add("__fish_use_subcommand", option);
  for (const CommandFacts& command : program.commands) {
    text += fmt::format("complete -c ebbtide -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        quoted(command.meaning, "\\'"));
  }
  for (const CommandFacts& command : program.commands) {
    const std::string when = "__fish_seen_subcommand_from " + command.name;
    for (const OptionFacts& option : command.flags()) add(when, option);
    for (const OptionFacts& option : command.positionals()) {
      if (option.takesFile()) {
        text += fmt::format("complete -c ebbtide -n {} -F\n", quoted(when, "\\'"));
      } else if (!option.choices.empty()) {
        text += fmt::format("complete -c ebbtide -n {} -a {}\n", quoted(when, "\\'"),
                            quoted(joined(option.choices, " "), "\\'"));
      }
    }
  }
  return text;
}

}  // namespace ebbtide::cli
