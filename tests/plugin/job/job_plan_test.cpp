#include "job/job_plan.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "../../scheduler/mutations.hpp"
#include "job/job_store.hpp"
#include "job_reports.hpp"

namespace ebbtide::plugin {
namespace {

JobPlan randomPlan(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  JobPlan plan;
  plan.makespan_ns = static_cast<std::int64_t>(random() >> 5);
  plan.own_makespan_ns = static_cast<std::int64_t>(random() >> 5);
  plan.bound_ns = static_cast<std::int64_t>(random() >> 5);
  plan.method = "fill by gain";
  plan.free_unit_ns = static_cast<std::int64_t>(1 + random() % 1'000'000);
  for (std::size_t ranks = random() % 5; ranks > 0; --ranks) {
    auto& rank = plan.ranks.emplace_back();
    rank.peak_bytes = static_cast<std::int64_t>(random() >> 5);
    rank.own = random() % 4 == 0;
    for (std::size_t left = random() % 20; left > 0; --left) {
      rank.points.push_back(static_cast<std::int32_t>(random() % 3));
      rank.free.push_back(static_cast<std::int32_t>(random() % 1000));
    }
  }
  return plan;
}

TEST(JobPlan, ComesBackAsItWas) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const JobPlan plan = randomPlan(seed);
    EXPECT_TRUE(planFromText(toText(plan)) == plan) << toText(plan);
  }
}

TEST(JobPlan, DamagedOnesAreRefusedOrPlans) {
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    const std::string damaged = scheduler::Mutations(seed).apply(toText(randomPlan(seed % 50)));
    try {
      const JobPlan plan = planFromText(damaged);
      ASSERT_TRUE(planFromText(toText(plan)) == plan) << damaged;
    } catch (const std::invalid_argument& error) {
      ASSERT_STRNE(error.what(), "") << damaged;
    }
  }
}

TEST(JobPlan, SaysWhatIsWrong) {
  const auto problem = [](const std::string& points, const std::string& repeated) -> std::string {
    try {
      planFromText(R"({"makespan_ns":1,"own_makespan_ns":1,"bound_ns":1,"method":"","peak":[1,1],)"
                   R"("own":[0,0],"chunks":[2,3],"free_unit_ns":1,"free":[0,0,0,0,0],"point":)" +
                   points + ",\"repeated\":" + repeated + "}");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(problem("[0,1]", "[4,1]"), "");  // 2 + 3 chunks
  EXPECT_EQ(problem("[0,1]", "[3,1]"), "there are fewer points than \"chunks\" says");
  EXPECT_EQ(problem("[0,1]", "[5,1]"), "there are more points than \"chunks\" says");
  EXPECT_EQ(problem("[0]", "[6]"), "there are more points than \"chunks\" says");
  EXPECT_EQ(problem("[0,1]", "[5,0]"), "\"repeated\" has 0, not in 1 to 8388608");
  EXPECT_EQ(problem("[]", "[]"), "there are fewer points than \"chunks\" says");
}

// 256 ranks with 512 chunks each, no two neighbours alike: 131,072 runs of "3,1," and as many
// "999,", 1 MB.
TEST(JobPlan, OfALargeJobFitsTheStore) {
  JobPlan plan;
  for (int rank = 0; rank < 256; ++rank) {
    auto& of = plan.ranks.emplace_back();
    of.peak_bytes = 80'000'000'000 + rank;
    of.free.assign(512, 999);
    for (int i = 0; i < 512; ++i) of.points.push_back(i % 2 == 0 ? 3 : 7);
  }
  EXPECT_LT(toText(plan).size(), kMostStoredBytes * 3 / 4);
  EXPECT_TRUE(planFromText(toText(plan)) == plan);
}

TEST(JobPlan, IsCheckedAgainstTheRanksOwnReport) {
  const RankReport own = pipelineReport(1, 2, 1, 4, 3);  // 4 chunks with 3 points each
  JobPlan plan;
  plan.ranks.resize(2);
  EXPECT_EQ(planProblem(plan, own).value_or(""),
            "it has 0 choices for rank 1, which runs 4 microbatches of stages");
  plan.ranks[1].points = {0, 1, 2, 0};
  plan.ranks[1].free = {0, 0, 0, 0};
  EXPECT_EQ(planProblem(plan, own).value_or(""), "");
  plan.ranks[1].points = {0, 1, 3, 0};
  EXPECT_EQ(planProblem(plan, own).value_or(""), "it takes point 3 of a curve with 3");
  plan.ranks.resize(3);
  EXPECT_EQ(planProblem(plan, own).value_or(""), "it is for 3 ranks, not for 2");
}

}  // namespace
}  // namespace ebbtide::plugin
