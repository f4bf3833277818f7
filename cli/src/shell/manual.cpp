#include "shell/manual.hpp"

#include <fmt/format.h>

#include <cctype>

#include "shell/exit_codes.hpp"

namespace ebbtide::cli {
namespace {

// A backslash and hyphens as they are; a dot or a quote at a line's begin is no command.
std::string roff(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else {
      result += letter == '\n' ? ' ' : letter;
    }
  }
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

// Quotes within an argument of a macro end it.
std::string quoted(const std::string& text) {
  std::string result;
  for (const char letter : roff(text))
    result += letter == '"' ? std::string("\\(dq") : std::string(1, letter);
  return result;
}

std::string upper(std::string text) {
  for (char& letter : text)
    letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return text;
}

std::string entry(const OptionFacts& option) {
  std::string text = ".TP\n";
  std::string names;
  for (const std::string& name : option.names) {
    names += (names.empty() ? "" : ", ") + fmt::format("\\fB{}\\fR", roff(name));
  }
  if (!option.positional && !option.value.empty()) {
    names += fmt::format(" \\fI{}\\fR", roff(option.value));
  }
  text += names + (option.repeated ? " ..." : "") + "\n";
  text += roff(option.meaning);
  std::string more;
  for (const std::string& choice : option.choices)
    more += (more.empty() ? "one of " : ", ") + choice;
  if (!option.otherwise.empty()) {
    more += (more.empty() ? "" : "; ") + std::string("default: ") + option.otherwise;
  }
  if (!more.empty()) text += (option.meaning.empty() ? "" : " ") + roff("(" + more + ")");
  return text + "\n";
}

std::string synopsis(const CommandFacts& command) {
  std::string text = fmt::format("\\fBebbtide {}\\fR", roff(command.name));
  for (const OptionFacts& option : command.positionals()) {
    const std::string name =
        fmt::format("\\fI{}\\fR{}", roff(option.names.front()), option.repeated ? " ..." : "");
    text += option.required ? " " + name : " [" + name + "]";
  }
  return text + " [\\fIoptions\\fR]\n";
}

std::string commandText(const CommandFacts& command) {
  std::string text = fmt::format(".SS \"{}\"\n{}.PP\n{}.\n", quoted("ebbtide " + command.name),
                                 synopsis(command), roff(command.meaning));
  for (const OptionFacts& option : command.options) {
    if (option.names.back() != "--help") text += entry(option);
  }
  return text;
}

}  // namespace

std::string manualOf(const CommandFacts& program, const std::string& version) {
  std::string text = fmt::format(
      ".\\\" Made from the program's own options; see `ebbtide man`.\n"
      ".TH EBBTIDE 1 \"\" \"ebbtide {}\" \"User Commands\"\n"
      ".SH NAME\nebbtide \\- {}\n.SH SYNOPSIS\n.B ebbtide\n.I command\n.RI [ options ]\n"
      ".SH DESCRIPTION\n{}.\nEach command prints its options with\n.BR \\-\\-help .\n",
      roff(version), roff("see and tune jobs that train within a memory budget"),
      roff(program.meaning));
  std::string group;
  for (const CommandFacts& command : program.commands) {
    if (command.group != group) text += fmt::format(".SH \"{}\"\n", quoted(upper(command.group)));
    group = command.group;
    text += commandText(command);
  }
  text += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : kExitCodes) {
    text += fmt::format(".TP\n.B {}\n{}\n", code, roff(meaning));
  }
  text += ".SH ENVIRONMENT\n";
  for (const auto& [name, meaning] :
       {std::pair("EBBTIDE_SOCKET_DIR", "where running jobs are found; as the jobs have it"),
        std::pair("XDG_RUNTIME_DIR", "without it: the folder ebbtide in this one"),
        std::pair("VIRTUAL_ENV",
                  "the Python environment that doctor looks at, and where solvers "
                  "are looked for")}) {
    text += fmt::format(".TP\n.B {}\n{}\n", name, roff(meaning));
  }
  return text;
}

}  // namespace ebbtide::cli
