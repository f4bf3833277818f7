#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "given_seconds.hpp"
#include "live/budget_change.hpp"
#include "live/rank_answers.hpp"
#include "live/rank_row.hpp"
#include "live/running_jobs.hpp"
#include "live/terminal_screen.hpp"
#include "live/top_frame.hpp"
#include "live/top_model.hpp"
#include "terminal_text.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kForSilent = 1s;

struct Arguments {
  JobInput job;
  double interval_seconds = 1;
  bool once = false, json = false;
};

std::vector<RankRow> statusesOf(const std::vector<JobAnswers>& jobs) {
  std::vector<RankRow> ranks;
  for (const JobAnswers& job : jobs) {
    for (const RankAnswer& answer : job.answers) ranks.push_back(RankRow::of(answer, job.job));
  }
  return ranks;
}

// The latest of what a thread of its own brought; nothing before, or once it was taken.
template <class Value>
class Latest {
 public:
  void put(Value value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
  }
  std::optional<Value> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(value_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<Value> value_;
};

// Asks the ranks again and again, and changes budgets beside that: a slow answer does not hold up
// the keys. One that did not come in time is waited for less long the next times, until it is there
// again: else it would hold up the other ranks' figures each time.
class Asker {
 public:
  Asker(RunningJobs jobs, const Arguments& arguments)
      : arguments_(arguments),
        polling_([this, jobs = std::move(jobs)](std::stop_token stop) mutable {
          poll(std::move(jobs), std::move(stop));
        }) {}

  // One change at a time. False: outcome() has not returned the result of the change before yet.
  bool change(const TopAction& action) {
    if (std::exchange(changing_now_, true)) return false;
    changing_ = std::jthread([this, action](std::stop_token stop) {
      JobInput input = arguments_.job;
      input.ranks = {action.rank};
      input.timeout_seconds = std::max(input.timeout_seconds, 60.0);
      if (action.where.empty()) {
        input.job = action.job;
      } else {
        input.endpoints = {action.where};
      }
      changed_.put(said(input, action.size, std::move(stop)));
    });
    return true;
  }

  std::optional<std::vector<RankRow>> ranks() { return ranks_.take(); }
  std::optional<std::string> outcome() {
    auto changed = changed_.take();
    if (!changed) return problem_.take();
    changing_now_ = false;
    problem_.take();  // it is older, and would hide the change's answer
    return changed;
  }

 private:
  static std::string said(const JobInput& input, const std::string& size, std::stop_token stop) {
    try {
      RunningJob job = RunningJob::find(input);
      job.setStop(std::move(stop));
      std::string text;
      for (const RankAnswer& answer : changeBudget(job, size, input.timeout())) {
        text += answer.name() + ": " +
                (answer.problem.empty() ? describeBudget(answer) : problemOf(answer));
      }
      return text;
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  void poll(RunningJobs running, std::stop_token stop) {
    running.setStop(stop);
    const auto interval = std::chrono::duration<double>(arguments_.interval_seconds);
    bool silent = false;
    std::mutex mutex;
    std::condition_variable_any waiting;
    while (!stop.stop_requested()) {
      std::vector<RankRow> ranks;
      try {
        const auto limit = arguments_.job.timeout();
        const std::vector<JobAnswers> jobs =
            running.statuses(silent ? std::min(limit, kForSilent) : limit);
        silent = isSilent(jobs);
        ranks = statusesOf(jobs);
      } catch (const std::exception& error) {
        problem_.put(error.what());
      }
      if (stop.stop_requested()) return;
      ranks_.put(std::move(ranks));
      std::unique_lock lock(mutex);
      waiting.wait_for(lock, stop, interval, [] { return false; });
    }
  }

  static bool isSilent(const std::vector<JobAnswers>& jobs) {
    return std::any_of(jobs.begin(), jobs.end(), [](const JobAnswers& job) {
      return std::any_of(job.answers.begin(), job.answers.end(),
                         [](const RankAnswer& answer) { return answer.status == 0; });
    });
  }

  const Arguments arguments_;
  Latest<std::vector<RankRow>> ranks_;
  Latest<std::string> changed_, problem_;
  bool changing_now_ = false;
  std::jthread polling_, changing_;
};

// Draws until a key ends it.
void watch(const Arguments& arguments, RunningJobs jobs) {
  TopModel model;
  model.title = jobs.title();
  for (const std::string& note : jobs.notes()) model.message = forColumns(note);
  TerminalScreen screen;
  Asker asker(std::move(jobs), arguments);
  for (;;) {
    screen.draw(topFrame(model, screen.size(), screen.unicode()));
    const auto key = screen.key(100ms);
    if (screen.closed()) return;
    if (auto ranks = asker.ranks()) model.setRanks(std::move(*ranks));
    if (auto outcome = asker.outcome()) model.message = forColumns(*outcome);
    if (!key) continue;
    const TopAction action = model.press(*key, visibleRows(screen.size()));
    if (action.kind == TopAction::Kind::kQuit) return;
    if (action.kind == TopAction::Kind::kSetBudget) {
      model.message = asker.change(action)
                          ? fmt::format("{}: asks for {}", model.promptedName(), action.size)
                          : "the change before is not answered yet";
    }
  }
}

int numberOr(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  const int number = text == nullptr ? 0 : std::atoi(text);
  return number > 0 && number < 10000 ? number : otherwise;
}

// As wide as the terminal or COLUMNS, as high as it takes.
void printOnce(const std::string& title, const std::vector<JobAnswers>& jobs) {
  TopModel model;
  model.title = title;
  model.setRanks(statusesOf(jobs));
  winsize window{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0;
  const ScreenSize size{.columns = numberOr("COLUMNS", known ? window.ws_col : 80),
                        .lines = static_cast<int>(model.lines().size()) + 6};
  std::vector<FrameLine> lines = topFrame(model, size, localeIsUnicode());
  lines.resize(lines.size() - std::min<std::size_t>(lines.size(), 3));  // not what keys are for
  for (const FrameLine& line : lines) {
    std::string text = line.text();
    text.erase(text.find_last_not_of(' ') + 1);
    fmt::print("{}\n", text);
  }
}

int top(const Arguments& arguments) {
  RunningJobs running = RunningJobs::find(arguments.job);
  if (!arguments.once && !arguments.json) {
    watch(arguments, std::move(running));
    return kFeasible;
  }
  const std::vector<JobAnswers> jobs = running.statuses();
  printNotes(running.notes());
  if (jobs.empty()) fmt::print(stderr, "ebbtide: no rank answered\n");
  if (arguments.json) {
    fmt::print("{}\n", running.json(jobs).dump(1, ' ', true));
  } else {
    printOnce(running.title(), jobs);
  }
  return exitCodeOf(jobs);
}

}  // namespace

void addTop(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("top", "Watch all ranks of the running jobs, and change budgets");
  arguments->job.addTo(*verb);
  verb->get_option("--job")->description(kOnlyJob);
  verb->add_option("--interval", arguments->interval_seconds, "between two questions to the ranks")
      ->check(givenSeconds(0.1, 3600))
      ->capture_default_str()
      ->type_name("SECONDS");
  verb->add_flag("--once", arguments->once, "print once, without a terminal");
  verb->add_flag("--json", arguments->json, "once, as `ebbtide status --json` does");
  verb->callback([arguments, &exit_code] { exit_code = top(*arguments); });
}

}  // namespace ebbtide::cli
