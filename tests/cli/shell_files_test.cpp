// What is made from the tree of verbs: nothing in it is missing there.
#include <gtest/gtest.h>

#include "shell/command_tree.hpp"
#include "shell/completion.hpp"
#include "shell/exit_codes.hpp"
#include "shell/manual.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

const CommandFacts& program() {
  static int exit_code = 0;
  static const auto app = makeProgram(exit_code);
  static const CommandFacts facts = factsOf(*app);
  return facts;
}

const CommandFacts& command(const std::string& name) {
  for (const CommandFacts& facts : program().commands) {
    if (facts.name == name) return facts;
  }
  throw std::invalid_argument(name);
}

TEST(CommandTree, EachVerbAndOptionSaysWhatItIs) {
  ASSERT_GE(program().commands.size(), 17U);
  for (const CommandFacts& facts : program().commands) {
    EXPECT_FALSE(facts.meaning.empty()) << facts.name;
    for (const OptionFacts& option : facts.options) {
      EXPECT_FALSE(option.meaning.empty()) << facts.name << " " << option.names.front();
      if (option.positional || !option.choices.empty()) continue;
      EXPECT_NE(option.value, "TEXT")
          << facts.name << " " << option.names.back() << ": name what it takes";
    }
  }
}

// Promised: everywhere but where a shell or a pager reads the output.
TEST(CommandTree, JsonIsEverywhere) {
  for (const CommandFacts& facts : program().commands) {
    if (facts.name == "completion" || facts.name == "man") continue;
    bool found = false;
    for (const OptionFacts& option : facts.flags())
      found = found || option.names.back() == "--json";
    EXPECT_TRUE(found) << facts.name;
  }
}

// What an option takes and what holds without it, not how CLI11 checks it.
TEST(HelpText, SaysWhatTheManualSays) {
  int exit_code = 0;
  const auto app = makeProgram(exit_code);
  for (const CLI::App* verb : app->get_subcommands([](const CLI::App*) { return true; })) {
    const std::string help = verb->help();
    for (const char* word :
         {"Needs:", "Excludes:", "REQUIRED", "INT in ", "UINT", "FLOAT", "TEXT"}) {
      EXPECT_EQ(help.find(word), std::string::npos) << verb->get_name() << ": " << word;
    }
  }
  const std::string curve = app->get_subcommand("curve")->help();
  for (const char* line :
       {"\n  --model real|paper ", "\n  --rank N ... ", "(default: 12)\n", "\nWith a file:\n"}) {
    EXPECT_NE(curve.find(line), std::string::npos) << line;
  }
}

TEST(CommandTree, HasChoicesFilesAndGroupsOfOptions) {
  const auto& plan = command("plan");
  bool minimize = false, graph = false;
  for (const OptionFacts& option : plan.options) {
    if (option.names.back() == "--minimize") {
      minimize = true;
      EXPECT_EQ(option.choices, std::vector<std::string>{"peak"});
    }
    if (option.names.back() == "GRAPH") {
      graph = true;
      EXPECT_TRUE(option.takesFile() && option.positional);
    }
  }
  EXPECT_TRUE(minimize && graph);
}

TEST(Completion, NamesEveryVerbAndOption) {
  for (const auto& script : {bashCompletion(program()), zshCompletion(program())}) {
    for (const CommandFacts& facts : program().commands) {
      EXPECT_NE(script.find(facts.name), std::string::npos);
      for (const OptionFacts& option : facts.flags()) {
        EXPECT_NE(script.find(option.names.back()), std::string::npos) << option.names.back();
      }
    }
  }
  EXPECT_NE(fishCompletion(program()).find("__fish_seen_subcommand_from budget' -l json"),
            std::string::npos);
}

TEST(Manual, NamesEveryVerbOptionAndExitCode) {
  const std::string page = manualOf(program(), "1.2.3");
  for (const CommandFacts& facts : program().commands) {
    EXPECT_NE(page.find("ebbtide " + facts.name), std::string::npos);
  }
  for (const auto& [code, meaning] : kExitCodes) {
    EXPECT_NE(page.find("\n.B " + std::to_string(code) + "\n"), std::string::npos);
  }
  EXPECT_NE(page.find("\\fB\\-\\-token\\-file\\fR \\fIFILE\\fR"), std::string::npos);
}

}  // namespace
}  // namespace ebbtide::cli
