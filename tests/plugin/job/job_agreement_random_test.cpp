// Whatever happens to a job: ranks that switch use one plan, made for what they reported, that all
// were ready for; and no rank waits for ever.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "../../scheduler/mutations.hpp"
#include "simulated_job.hpp"

namespace ebbtide::plugin {
namespace {

class RandomJob {
 public:
  explicit RandomJob(std::uint64_t seed)
      : random_(seed), job_(static_cast<std::int32_t>(1 + random_() % 5), seed) {
    job_.step_seconds = 0.05 * static_cast<double>(1 + pick(100));
    if (chance(3)) job_.most_delay_seconds = 3;
    watch();
    for (std::size_t i = 0; i < job_.size(); ++i) addFaults(job_.rank(i));
  }

  void run() {
    for (int event = 0; event < 6; ++event) {
      job_.run(static_cast<double>((event + 1) * 30) + pick(20));
      if (!chance(2)) continue;
      const std::size_t rank = pick(job_.size());
      if (!job_.rank(rank).reported) continue;
      job_.rank(rank).report.budget_bytes = static_cast<std::int64_t>(pick(3));
      job_.report(rank);
    }
    // Asked for ever more seldom, each round takes 150 s at most.
    job_.run(20'000);
  }

  std::size_t commits() const { return commits_; }

  void check() {
    for (std::size_t i = 0; i < job_.size(); ++i) {
      SimulatedJob::Rank& rank = job_.rank(i);
      if (rank.death_seconds < 1e6 || !rank.agreement->alive()) continue;
      // It rests: the next look is an idle one.
      EXPECT_GT(
          std::chrono::duration<double>(rank.agreement->nextPoll().time_since_epoch()).count(),
          job_.now() - 4)
          << i;
      const std::int64_t calls = rank.faults->calls;
      job_.run(job_.now() + 100);  // 20 looks of three calls at most
      EXPECT_LE(rank.faults->calls, calls + 80) << i;
    }
    if (!damaged_) {
      for (std::size_t i = 0; i < job_.size(); ++i) EXPECT_LE(job_.rank(i).said.size(), 12u);
    }
  }

 private:
  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  bool chance(std::size_t one_in) { return pick(one_in) == 0; }

  void addFaults(SimulatedJob::Rank& rank) {
    if (chance(4)) rank.start_seconds = static_cast<double>(pick(200));
    if (chance(8)) rank.death_seconds = 0.1 * static_cast<double>(pick(pick(2) == 0 ? 30 : 3000));
    if (chance(8)) rank.faults->calls_left = static_cast<std::int64_t>(pick(60));
    if (chance(10)) rank.report.versions.torch = "2.12.0";
    const bool unsure = chance(10);  // whether it has room
    rank.prepare = [this, unsure, &rank](const std::string& plan) -> std::optional<std::string> {
      if (unsure && chance(2)) return "no room";
      noteReady(rank, plan);
      return std::nullopt;
    };
    if (chance(3)) rank.faults->delays = [this] { return chance(2); };
    if (chance(6)) {
      damaged_ = true;
      rank.faults->damage = [this](const std::string&, std::string& value) {
        if (chance(4)) value = scheduler::Mutations(random_()).apply(value);
      };
    }
  }

  void watch() {
    job_.plan = [this](const std::vector<RankReport>& reports) {
      const std::string plan = "plan " + std::to_string(plans_.size());
      auto& of = plans_[plan];
      for (const RankReport& report : reports) of.budgets.push_back(report.budget_bytes);
      return JobPlanning{plan, "", true};
    };
    job_.on_commit = [this](SimulatedJob::Rank& rank, const SimulatedJob::Commit& commit) {
      ++commits_;
      Made& made = plans_.at(commit.plan);
      EXPECT_EQ(made.ready.size(), job_.size());
      EXPECT_TRUE(made.ready.contains(rank.report.rank));
      // The step is the same for all, and no further off than the margin.
      if (made.step < 0) made.step = commit.step;
      EXPECT_EQ(commit.step, made.step);
      EXPECT_LE(commit.step - commit.at_step, 3 + 1 / job_.step_seconds);
    };
  }

  // What it prepares is a plan as rank 0 made it, for what this rank reports now.
  void noteReady(const SimulatedJob::Rank& rank, const std::string& plan) {
    const auto found = plans_.find(plan);
    ASSERT_NE(found, plans_.end()) << plan;
    EXPECT_EQ(found->second.budgets.at(static_cast<std::size_t>(rank.report.rank)),
              rank.report.budget_bytes);
    found->second.ready.insert(rank.report.rank);
  }

  struct Made {
    std::vector<std::int64_t> budgets;
    std::set<std::int32_t> ready;
    std::int64_t step = -1;
  };

  std::mt19937_64 random_;
  SimulatedJob job_;
  std::map<std::string, Made> plans_;
  std::size_t commits_ = 0;
  bool damaged_ = false;
};

TEST(JobAgreementProperty, RanksThatSwitchAgreeAndNoneWaitsForEver) {
  std::size_t commits = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    RandomJob job(seed);
    job.run();
    job.check();
    commits += job.commits();
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(commits, 400u) << commits;  // or nothing was tested
  RecordProperty("commits", static_cast<int>(commits));
}

}  // namespace
}  // namespace ebbtide::plugin
