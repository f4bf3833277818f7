#include <charconv>
#include <memory>
#include <optional>
#include <stdexcept>

#include "live/budget_change.hpp"
#include "live/change_input.hpp"
#include "live/rank_answers.hpp"
#include "live/running_job.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

struct Arguments {
  ChangeInput change;
  std::string ranks, size;
  bool force = false;
};

// Nothing: all.
std::optional<int> rankFrom(const std::string& text) {
  if (text == "all") return std::nullopt;
  int rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size() || rank < 0) {
    throw std::invalid_argument("RANK: '" + text + "' is neither a rank nor all");
  }
  return rank;
}

int budget(const Arguments& arguments) {
  checkBudget(arguments.size);
  ChangeInput change = arguments.change;
  if (const auto rank = rankFrom(arguments.ranks)) {
    if (!change.job.ranks.empty()) {
      throw std::invalid_argument("--rank: RANK names the rank already; with all it says which");
    }
    change.job.ranks = {*rank};
  }
  RunningJob job = RunningJob::find(change.job);
  return print(job, changeBudget(job, arguments.size, change.job.timeout(), arguments.force),
               change.json, describeBudget);
}

}  // namespace

void addBudget(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("budget", "Change a rank's budget while it trains");
  verb->add_option("RANK", arguments->ranks, "a rank, or all")->required();
  verb->add_option("SIZE", arguments->size, "30GiB, 80%, auto, -50%, 60%peak, none, bytes")
      ->required();
  verb->add_flag("--force", arguments->force,
                 "do it even if the run may then fail with out of memory");
  arguments->change.addTo(*verb);
  verb->callback([arguments, &exit_code] { exit_code = budget(*arguments); });
}

}  // namespace ebbtide::cli
