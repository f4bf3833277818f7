#include "shell/command_words.hpp"

#include <algorithm>
#include <stdexcept>

namespace ebbtide::cli {
namespace {

constexpr char kGuard = '\1';  // no word begins with it

}  // namespace

std::vector<std::string> guardedWords(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const auto mark = std::find(words.begin(), words.end(), "--");
  // The word that follows would be taken, the mark too.
  const auto empty = std::find_if(words.begin(), mark, [](const std::string& word) {
    return word.starts_with("--") && word.find('=') == word.size() - 1;
  });
  if (empty != mark) {
    throw std::invalid_argument(*empty + " has no value: write " + *empty +
                                "VALUE, or leave it out");
  }
  for (auto word = mark; word != words.end(); ++word) {
    if (word->starts_with('[')) word->insert(word->begin(), kGuard);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::string unguarded(const std::string& word) {
  return word.starts_with(kGuard) ? word.substr(1) : word;
}

}  // namespace ebbtide::cli
