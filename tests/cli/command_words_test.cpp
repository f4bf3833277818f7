// Another program's words, through our own command line.
#include "shell/command_words.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

namespace ebbtide::cli {
namespace {

TEST(CommandWords, ComeThroughAsTheyAre) {
  const std::vector<const char*> given = {
      "ebbtide", "prove", "--steps", "3",     "--", "python", "[1,2]", "[",    "",
      "--steps", "4",     "--",      "prove", "{}", "++",     "%%",    "[a]=b"};
  CLI::App app;
  std::vector<std::string> command;
  int steps = 0;
  auto* verb = app.add_subcommand("prove");
  verb->add_option("COMMAND", command);
  verb->add_option("--steps", steps);
  app.parse(guardedWords(static_cast<int>(given.size()), given.data()));
  for (std::string& word : command) word = unguarded(word);
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(command, std::vector<std::string>(given.begin() + 5, given.end()));
}

TEST(CommandWords, WithoutAMarkNothingChanges) {
  const std::vector<const char*> given = {"ebbtide", "plan", "[1,2]"};
  EXPECT_EQ(guardedWords(3, given.data()), (std::vector<std::string>{"[1,2]", "plan"}));
  EXPECT_TRUE(guardedWords(0, given.data()).empty());
}

TEST(CommandWords, AnOptionWithoutItsValueDoesNotTakeTheMark) {
  const std::vector<const char*> given = {"ebbtide", "prove", "--budget=", "--", "python", "--a="};
  try {
    guardedWords(static_cast<int>(given.size()), given.data());
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "--budget= has no value: write --budget=VALUE, or leave it out");
  }
  const std::vector<const char*> rest = {"ebbtide", "--keep=lr=", "--", "python", "--a="};
  EXPECT_EQ(guardedWords(5, rest.data()).size(), 4U);  // what follows the mark is a program's
}

}  // namespace
}  // namespace ebbtide::cli
