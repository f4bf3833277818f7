#include "shell/usage_problem.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

// Letters to be put in, left out or changed to make the one of the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

// "": none is like it.
std::string verbLike(const CLI::App& program, const std::string& word) {
  if (word.size() > 40) return "";
  std::string best;
  std::size_t least = 3;  // more is another word
  for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) {
    const std::size_t far = distance(word, verb->get_name());
    if (far < std::min(least, verb->get_name().size() - 1)) {
      least = far;
      best = verb->get_name();
    }
  }
  return best;
}

std::string withoutAVerb(const CLI::App& program) {
  const std::vector<std::string> words = program.remaining();
  if (words.empty()) return "a verb is missing; see ebbtide --help";
  const std::string& word = words.front();
  if (word.starts_with('-')) {
    return "a verb is missing before " + forTerminal(word) + "; see ebbtide --help";
  }
  const std::string meant = verbLike(program, word);
  return "there is no verb '" + forTerminal(word) + "'" +
         (meant.empty() ? "; see ebbtide --help"
                        : "; " + meant + " is like it: see ebbtide --help");
}

// Of the words that the verb did not take: "--wait", say. "": none is an option.
std::string unknownOption(const CLI::App& verb) {
  for (const std::string& word : verb.remaining()) {
    if (word.starts_with("--") && word.size() > 2) return word.substr(0, word.find('='));
  }
  return "";
}

std::string verbsWith(const CLI::App& program, const std::string& option) {
  std::string verbs;
  for (const CLI::App* verb : program.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_option_no_throw(option) == nullptr) continue;
    verbs += (verbs.empty() ? "" : ", ") + verb->get_name();
  }
  return verbs;
}

bool isNumber(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

std::string usageProblem(const CLI::App& program, const CLI::ParseError& error) {
  const std::vector<CLI::App*> verbs = program.get_subcommands();
  if (verbs.empty()) return withoutAVerb(program);
  const CLI::App& verb = *verbs.front();
  // First of all: what comes after it may be taken for another word, which is wrong by it alone.
  if (const std::string option = unknownOption(verb); !option.empty()) {
    if (verb.get_option_no_throw("COMMAND") != nullptr) {
      return "unknown option " + forTerminal(option) + " of " + verb.get_name() +
             "; options of the command come after --; see ebbtide " + verb.get_name() + " --help";
    }
    const std::string others = verbsWith(program, option);
    return "unknown option " + forTerminal(option) + " of " + verb.get_name() +
           (others.empty()
                ? ""
                : " (" + others +
                      (others.find(',') == std::string::npos ? " has it)" : " have it)")) +
           "; see ebbtide " + verb.get_name() + " --help";
  }
  std::string text = forTerminal(error.what());
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::vector<std::string> before = program.remaining(), after = verb.remaining();
    if (!before.empty()) {
      text += "; options come after the verb";
    } else if (after.size() == 1 && isNumber(after.front()) &&
               verb.get_option_no_throw("--rank") != nullptr) {
      text += "; for a rank: --rank " + after.front();
    }
  }
  return text + "; see ebbtide " + verb.get_name() + " --help";
}

}  // namespace ebbtide::cli
