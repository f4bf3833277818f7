// SimulatedJob: the ranks of a job with a JobAgreement each, a store in memory and a clock that the
// test moves.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "job/counted_job_store.hpp"
#include "job/job_agreement.hpp"
#include "job/job_round.hpp"
#include "job_reports.hpp"
#include "memory_job_store.hpp"

namespace ebbtide::plugin {

class SimulatedJob {
 public:
  using Time = JobAgreement::Time;

  struct Commit {
    std::string plan;
    std::int64_t step = 0;     // from which on
    std::int64_t at_step = 0;  // where it was said
  };
  struct Rank {
    RankReport report;
    JobAgreement::Options options;
    double start_seconds = 0;  // of its first report
    double death_seconds = 1e9;
    std::int64_t first_step = 0;
    std::function<std::optional<std::string>(const std::string&)> prepare;
    std::shared_ptr<MemoryJobStore::Faults> faults;
    JobTraffic traffic;
    std::unique_ptr<JobAgreement> agreement;
    std::string prepared;
    std::vector<Commit> commits;
    std::vector<std::string> kept, again, said, debugged, found;
    std::int64_t step = 0;
    double next_seconds = 0;
    bool reported = false;
  };

  explicit SimulatedJob(std::int32_t size, std::uint64_t seed = 0) : size_(size), random_(seed) {
    for (std::int32_t i = 0; i < size; ++i) {
      Rank& rank = *ranks_.emplace_back(std::make_unique<Rank>());
      rank.report = pipelineReport(i, size);
      rank.options.job = 77;
      makeAgreement(i);
    }
    plan = [](const std::vector<RankReport>& reports) {
      return JobPlanning{planFor(reports), "", true};
    };
  }

  // Anew, as in a process that starts again.
  void makeAgreement(std::int32_t index) {
    Rank& rank = *ranks_[static_cast<std::size_t>(index)];
    auto store = std::make_unique<MemoryJobStore>(contents_);
    rank.faults = store->faults();
    rank.reported = false;
    auto counted = std::make_unique<CountedJobStore>(std::move(store), rank.traffic);
    rank.agreement = std::make_unique<JobAgreement>(std::move(counted), index, size_,
                                                    callbacksOf(rank), rank.options);
  }

  Rank& rank(std::size_t index) { return *ranks_[index]; }
  std::size_t size() const { return ranks_.size(); }
  JobStoreContents& contents() { return *contents_; }
  double now() const { return now_seconds_; }

  void report(std::size_t index) {
    rank(index).agreement->report(rank(index).report);
    rank(index).next_seconds = now_seconds_;
  }

  // Until the clock shows that.
  void run(double until_seconds) {
    for (;;) {
      Rank* next = nullptr;
      for (const auto& rank : ranks_) {
        if (!rank->reported) rank->next_seconds = rank->start_seconds;
        if (rank->next_seconds >= rank->death_seconds) continue;
        if (next == nullptr || rank->next_seconds < next->next_seconds) next = rank.get();
      }
      if (next == nullptr || next->next_seconds > until_seconds) break;
      now_seconds_ = std::max(now_seconds_, next->next_seconds);
      poll(*next);
    }
    now_seconds_ = until_seconds;
  }

  std::int64_t stepOf(const Rank& rank) const {
    return rank.first_step +
           static_cast<std::int64_t>(std::min(now_seconds_, trains_until) / step_seconds);
  }

  static std::string planFor(const std::vector<RankReport>& reports) {
    std::string all;
    for (const RankReport& report : reports) all += toText(report);
    return "plan " + jobHash(all);
  }
  // For what the ranks report now.
  std::string planNow() {
    std::vector<RankReport> reports;
    for (const auto& rank : ranks_) reports.push_back(rank->report);
    return planFor(reports);
  }

  std::function<JobPlanning(const std::vector<RankReport>&)> plan;
  std::function<void(Rank&, const Commit&)> on_commit;
  std::function<void(Rank&)> on_find;
  double step_seconds = 0.4;
  double trains_until = 1e9;
  double most_delay_seconds = 0.02;  // of a poll

 private:
  static Time at(double seconds) {
    return Time(std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds)));
  }

  JobCallbacks callbacksOf(Rank& rank) {
    JobCallbacks callbacks;
    callbacks.plan = [this](const auto& reports) { return plan(reports); };
    callbacks.find = [this, &rank](const std::string& text) {
      rank.found.push_back(text);
      if (on_find) on_find(rank);
    };
    callbacks.prepare = [&rank](const std::string& text) -> std::optional<std::string> {
      if (rank.prepare) {
        if (auto problem = rank.prepare(text)) return problem;
      }
      rank.prepared = text;
      return std::nullopt;
    };
    callbacks.commit = [this, &rank](std::int64_t step) {
      rank.commits.push_back({rank.prepared, step, rank.step});
      if (on_commit) on_commit(rank, rank.commits.back());
    };
    callbacks.keep = [&rank](const std::string& why) { rank.kept.push_back(why); };
    callbacks.again = [&rank](const std::string& why) { rank.again.push_back(why); };
    callbacks.say = [&rank](const std::string& text) { rank.said.push_back(text); };
    callbacks.debug = [&rank](const std::string& text) { rank.debugged.push_back(text); };
    return callbacks;
  }

  void poll(Rank& rank) {
    if (!rank.reported) rank.agreement->report(rank.report);
    rank.reported = true;
    rank.step = stepOf(rank);
    rank.agreement->poll(at(now_seconds_),
                         {rank.step, static_cast<Nanoseconds>(step_seconds * 1e9)});
    const Time next = rank.agreement->nextPoll();
    const double delay = most_delay_seconds * static_cast<double>(random_() % 1000) / 1000;
    rank.next_seconds =
        next == Time::max()
            ? 1e12
            : std::max(now_seconds_ + 1e-4,
                       std::chrono::duration<double>(next.time_since_epoch()).count()) +
                  delay;
  }

  std::int32_t size_;
  std::mt19937_64 random_;
  double now_seconds_ = 0;
  std::shared_ptr<JobStoreContents> contents_ = std::make_shared<JobStoreContents>();
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace ebbtide::plugin
