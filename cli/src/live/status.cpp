#include <fmt/format.h>

#include <memory>

#include "live/rank_answers.hpp"
#include "live/rank_row.hpp"
#include "live/running_jobs.hpp"
#include "shown_values.hpp"
#include "terminal_text.hpp"
#include "text_table.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

struct Arguments {
  JobInput job;
  bool json = false;
};

std::string table(const std::vector<RankAnswer>& answers) {
  TextTable table({{"rank"},
                   {"state", false},
                   {"step"},
                   {"step time"},
                   {"peak / budget"},
                   {"predicted"},
                   {"recompute"},
                   {"violations"}});
  for (const RankAnswer& answer : answers) {
    const RankRow status = RankRow::of(answer);
    const std::string name = answer.rank < 0 ? "-" : std::to_string(answer.rank);
    if (!status.problem.empty()) {
      table.add({name, (status.where.empty() ? "" : status.where + ": ") + status.problem});
      continue;
    }
    table.add(
        {name, status.state, shownCount(status.steps.count),
         shownSeconds(status.steps.median_seconds),
         shownBytes(status.boundedPeakBytes()) + " / " + shownBudget(status.memory.budget_bytes),
         shownBytes(status.memory.predicted_peak_bytes), shownShare(status.recompute_ratio),
         shownCount(status.violations)});
  }
  return table.text();
}

int status(const Arguments& arguments) {
  RunningJobs running = RunningJobs::find(arguments.job);
  const std::vector<JobAnswers> jobs = running.statuses();
  printNotes(running.notes());
  if (jobs.empty()) fmt::print(stderr, "ebbtide: no rank answered\n");
  if (arguments.json) {
    fmt::print("{}\n", running.json(jobs).dump(1, ' ', true));
    return exitCodeOf(jobs);
  }
  for (const JobAnswers& job : jobs) {
    if (jobs.size() > 1) {
      fmt::print("{}job {}\n", &job == &jobs.front() ? "" : "\n", forTerminal(job.job));
    }
    fmt::print("{}", table(job.answers));
  }
  return exitCodeOf(jobs);
}

}  // namespace

void addStatus(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("status", "What each rank of the running jobs holds and does");
  arguments->job.addTo(*verb);
  verb->get_option("--job")->description(kOnlyJob);
  verb->add_flag("--json", arguments->json, "one JSON document on stdout");
  verb->callback([arguments, &exit_code] { exit_code = status(*arguments); });
}

}  // namespace ebbtide::cli
