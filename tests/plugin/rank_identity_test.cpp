#include "runtime/rank_identity.hpp"

#include "fake_control.hpp"
#include "judged_run.hpp"

namespace ebbtide::plugin {
namespace {

class RankIdentityTest : public test::JudgedRunTest {
 protected:
  RankIdentityTest() : JudgedRunTest(configOfRankZero()) {}

  static RankPlace placeOf(int rank) {
    RankPlace place;
    place.rank = rank;
    place.world_size = 2;
    return place;
  }
  std::vector<std::string> said() { return std::exchange(said_, {}); }
  RankDiscovery::Tell warner() {
    return [this](const std::string& text) {
      warned_.push_back(text);
      return true;
    };
  }

  bool heard_ = true;
  const std::atomic<bool> ends_{false};
  int settled_jobs_ = 0;
  test::FakeControl control_;
  BudgetController budget_{run()};
  RankIdentity identity_{{.guard = guard_,
                          .config = config_,
                          .trained = trained_,
                          .metrics = metrics_,
                          .budget = budget_,
                          .control = control_,
                          .discovery = discovery_,
                          .torch_version = "2.0",
                          .settle_job = [this] { ++settled_jobs_; },
                          .say =
                              [this](const std::string& text) {
                                if (heard_) said_.push_back(text);
                                return heard_;
                              },
                          .warn = warner()}};
  RankDiscovery discovery_{config_, guard_, identity_, ends_, warner()};
};

TEST_F(RankIdentityTest, TheBudgetOfAnotherRankIsDue) {
  const Held held = guard_.hold();
  identity_.becomeRank(held, placeOf(1), "job");
  EXPECT_EQ(config_->rank, 1);
  EXPECT_EQ(budget_.bytes(), 64 * kMib);  // until a step begins
  EXPECT_TRUE(budget_.isOpen(held));
  budget_.take(held);
  EXPECT_EQ(budget_.bytes(), 32 * kMib);
  EXPECT_NE(metrics_.render(metrics::Format::kText).find("rank=\"1\""), std::string::npos);
}

TEST_F(RankIdentityTest, TheSameBudgetIsNot) {
  const Held held = guard_.hold();
  identity_.becomeRank(held, placeOf(0), "job");
  EXPECT_EQ(config_->world_size, 2);
  EXPECT_FALSE(budget_.isOpen(held));
}

TEST_F(RankIdentityTest, ABudgetWaitsForTheRankThatItDependsOn) {
  const Held held = guard_.hold();
  EXPECT_FALSE(identity_.awaitRanks(held, true));
  EXPECT_TRUE(budget_.isOpen(held));
  EXPECT_TRUE(identity_.awaitRanks(held, false));
  EXPECT_FALSE(budget_.isOpen(held));
}

TEST_F(RankIdentityTest, SaysWhereItIsOnceWithItsBudget) {
  const auto [at, problem] = identity_.serve(/*on_any_port=*/false);
  EXPECT_EQ(problem, "no port");
  EXPECT_TRUE(identity_.sayWhere(at, /*first=*/true));
  EXPECT_TRUE(identity_.sayWhere(at, /*first=*/false));
  const std::vector<std::string> lines = said();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("(torch 2.0): budget 64.0 MiB, here"), std::string::npos) << lines[0];
  EXPECT_EQ(lines[1], "this is rank 0 of 1, 0 of 1 on this machine: here");
}

TEST_F(RankIdentityTest, KnowsThatALineWasNotSaid) {
  heard_ = false;
  EXPECT_FALSE(identity_.sayWhere("here", /*first=*/true));
  EXPECT_FALSE(identity_.sayWhere("here", /*first=*/false));
}

TEST_F(RankIdentityTest, ItsJobIsSettledWithIt) {
  identity_.settleRank();
  EXPECT_EQ(settled_jobs_, 1);
}

}  // namespace
}  // namespace ebbtide::plugin
