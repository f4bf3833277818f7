// A run without a session, whose budget is judged: its parts, and what it says.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/budget/judged_run.hpp"

namespace ebbtide::plugin::test {

class JudgedRunTest : public testing::Test {
 protected:
  using Held = SessionGuard::Held;

  static constexpr std::int64_t kMib = 1 << 20;

  explicit JudgedRunTest(Config config = {}) : config_(std::move(config)) {}

  // Of a process that nobody has told how many ranks there are. Rank 1 has half of its budget.
  static Config configOfRankZero() {
    Config config;
    config.budget.by_rank =
        scheduler::RankBudgets::parse("EBBTIDE_BUDGET", "rank0=64MiB,rank1=32MiB");
    config.budget.text = "64MiB";
    config.budget.bytes = 64 * kMib;
    config.job_id = "job";
    return config;
  }

  JudgedRun run() { return run(outage_); }
  JudgedRun run(const SpillOutage& outage) {
    return {.guard = guard_,
            .config = config_,
            .trained = trained_,
            .metrics = metrics_,
            .counters = counters_,
            .keeps_everything = keeps_everything_,
            .outage = outage,
            .steps = steps_,
            .to_record = to_record_,
            .taken = taken_,
            .figures = figures_,
            .programs = programs_,
            .may_be_advised = [this](const Held&) { return may_be_advised_; },
            .say = [this](const std::string& text) { said_.push_back(text); },
            .warn = [this](const std::string& text) { warned_.push_back(text); }};
  }

  SessionGuard guard_;
  CurrentConfig config_;
  TrainedMemory trained_{config_};
  MetricsExport metrics_{config_, "", [](const std::string&) {}, [](const std::string&) {}};
  ExecutorCounters counters_{metrics_.series()};
  std::atomic<bool> keeps_everything_{false};
  SpillOutage outage_;
  std::int64_t steps_ = 0;
  StepsToRecord to_record_;
  TakenSteps taken_;
  RunFigures figures_;
  ProgramTable programs_;
  bool may_be_advised_ = false;
  std::vector<std::string> said_, warned_;
};

}  // namespace ebbtide::plugin::test
