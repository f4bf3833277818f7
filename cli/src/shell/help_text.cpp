#include "shell/help_text.hpp"

// What it adds to <CLI/App.hpp>, the others' include: GCC compiles that in each source for 2 s.
#include <CLI/CLI.hpp>

#include "shell/command_tree.hpp"

namespace ebbtide::cli {
namespace {

class HelpText : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const OptionFacts facts = factsOf(*option);
    std::string text;
    for (const std::string& choice : facts.choices) text += (text.empty() ? " " : "|") + choice;
    if (text.empty() && !facts.positional && !facts.value.empty()) text = " " + facts.value;
    return text + (facts.repeated ? " ..." : "");
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const OptionFacts facts = factsOf(*option);
    if (facts.otherwise.empty()) return facts.meaning;
    return facts.meaning + " (default: " + facts.otherwise + ")";
  }
};

}  // namespace

std::shared_ptr<CLI::Formatter> helpText() {
  auto text = std::make_shared<HelpText>();
  text->label("SUBCOMMAND", "VERB");
  return text;
}

}  // namespace ebbtide::cli
