// The verbs that describe the program itself: completion, man.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "shell/command_tree.hpp"
#include "shell/completion.hpp"
#include "shell/manual.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {

void addCompletion(CLI::App& app, int&) {
  auto shell = std::make_shared<std::string>();
  auto* verb = app.add_subcommand("completion", "Print a script for the tab key of a shell");
  verb->add_option("SHELL", *shell, "whose: eval \"$(ebbtide completion bash)\"")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->callback([shell, &app] {
    const CommandFacts program = factsOf(app);
    fmt::print("{}", *shell == "bash"  ? bashCompletion(program)
                     : *shell == "zsh" ? zshCompletion(program)
                                       : fishCompletion(program));
  });
}

void addManual(CLI::App& app, int&) {
  auto* verb = app.add_subcommand("man", "Print the manual page (ebbtide man | man -l -)");
  verb->callback([&app] { fmt::print("{}", manualOf(factsOf(app), EBBTIDE_VERSION)); });
}

}  // namespace ebbtide::cli
