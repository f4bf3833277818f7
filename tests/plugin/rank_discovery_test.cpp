#include "runtime/run/rank_discovery.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "job/memory_job_store.hpp"

namespace ebbtide::plugin {
namespace {

using namespace std::chrono_literals;
using Held = RankDiscovery::Held;
using Stage = RankDiscovery::Stage;
using Time = RankDiscovery::Time;

// Rank 1 of a group of two, unless the test says otherwise.
class RankDiscoveryTest : public testing::Test, protected RankDiscovery::Process {
 protected:
  void becomeRank(const Held&, const RankPlace& place, const std::string& job_id) override {
    Config now = *config_;
    static_cast<RankPlace&>(now) = place;
    now.job_id = job_id;
    config_.change(std::move(now));
    ++became_;
  }
  bool awaitRanks(const Held&, bool awaits) override { return std::exchange(awaits_, awaits); }
  RunControl::Served serve(bool on_any_port) override {
    on_any_port_ = on_any_port;
    ++served_;
    if (ends_while_served_) ends_ = true;
    const bool busy = busy_tries_ > 0;
    if (busy) --busy_tries_;
    return {"endpoint " + std::to_string(config_->rank), busy ? "the port is taken" : ""};
  }
  bool sayWhere(const std::string& endpoint, bool first) override {
    return says(said_, (first ? "first " : "") + endpoint, ends_while_said_);
  }
  void settleRank() override {
    ++settled_;
    if (!group_comes_) return;
    group_ = std::exchange(group_comes_, std::nullopt);
    EXPECT_TRUE(findsGroupSoon());
  }
  // `ends`: the process ends just before the line is written, so it is not (RunLines). Once.
  bool says(std::vector<std::string>& lines, const std::string& line, bool& ends) {
    if (std::exchange(ends, false)) {
      ends_ = true;
      return false;
    }
    lines.push_back(line);
    return true;
  }

  RankDiscoveryTest() {
    discovery_.offerGroup({.find = [this] { return group_; },
                           .open = [this]() -> std::unique_ptr<JobStore> {
                             if (contents_ == nullptr) return nullptr;
                             auto store = std::make_unique<MemoryJobStore>(contents_);
                             faults_ = store->faults();
                             return store;
                           }});
  }
  void begin(const RankPlace& told = {}) { discovery_.begin(guard_.hold(), told, "job"); }
  // What another step's begin finds, once the pause between two looks is over.
  bool findsGroup() {
    std::this_thread::sleep_for(25ms);
    return discovery_.lookForGroup();
  }
  // The pause is a thousand times as long as the last look took, which a busy machine interrupts,
  // and half a second at most: by then a later step's begin does.
  bool findsGroupSoon() {
    for (int steps = 0; steps < 40; ++steps) {  // 1 s
      if (findsGroup()) return true;
    }
    return false;
  }
  Stage stage() { return discovery_.stage(guard_.hold()); }
  bool settled() { return discovery_.settled(guard_.hold()); }
  Time nextLook() { return discovery_.nextLook(guard_.hold()); }
  // So long after it began: at least, and at most, however slow the machine is.
  void seek(std::chrono::seconds later) {
    discovery_.seek(std::chrono::steady_clock::now() + later);
  }
  void seekWithin(std::chrono::seconds later) { discovery_.seek(made_ + later); }
  // The port is taken, and `end` silences the planning thread before it says this.
  void expectProblemAtTheEnd(const std::function<void()>& end) {
    busy_tries_ = 1;
    begin();
    discovery_.show();
    const std::vector<std::string> first = said_;
    end();
    seek(6s);
    EXPECT_TRUE(warned_.empty());
    EXPECT_FALSE(settled());
    discovery_.settleAtEnd();
    EXPECT_EQ(warned_, std::vector<std::string>{"the port is taken"});
    EXPECT_EQ(said_, first);  // not again
    EXPECT_TRUE(settled());
  }
  // Rank 0 has told that both are on one machine.
  void tellMachines() { (*contents_)["ebbtide/machines"] = "job of rank 0\n0 0 "; }

  const Time made_ = std::chrono::steady_clock::now();
  CurrentConfig config_;
  SessionGuard guard_;
  std::atomic<bool> ends_{false};
  std::optional<GroupPlace> group_, group_comes_;
  std::shared_ptr<JobStoreContents> contents_ = std::make_shared<JobStoreContents>();
  std::shared_ptr<MemoryJobStore::Faults> faults_;
  int became_ = 0, served_ = 0, settled_ = 0, busy_tries_ = 0;
  bool awaits_ = false, on_any_port_ = false, ends_while_served_ = false;
  bool ends_while_said_ = false, ends_while_warned_ = false;
  std::vector<std::string> said_, warned_;
  RankDiscovery discovery_{config_, guard_, *this, ends_, [this](const std::string& text) {
                             return says(warned_, text, ends_while_warned_);
                           }};
};

const std::vector<std::string> kSaidFirst = {"first endpoint 0"};

TEST_F(RankDiscoveryTest, VariablesThatTellAllSettleTheFirstStep) {
  begin({.rank_told = true, .local_size_told = true});
  EXPECT_EQ(stage(), Stage::kKnown);
  discovery_.show();
  EXPECT_EQ(said_, kSaidFirst);
  EXPECT_EQ(settled_, 1);
  EXPECT_TRUE(settled());
  EXPECT_EQ(nextLook(), Time::max());
  EXPECT_FALSE(findsGroup());
}

TEST_F(RankDiscoveryTest, WithoutAGroupItIsAloneAfterFiveSeconds) {
  begin();
  EXPECT_EQ(stage(), Stage::kAlone);
  discovery_.show();
  EXPECT_EQ(said_, kSaidFirst);
  EXPECT_EQ(settled_, 0);
  seekWithin(4s);
  EXPECT_FALSE(settled());
  seek(6s);
  EXPECT_TRUE(settled());
  EXPECT_EQ(said_, kSaidFirst);  // it has not moved
}

// It was settled as alone: it moves, and says where it is once more.
TEST_F(RankDiscoveryTest, AGroupMayComeAfterItWasTakenToBeAlone) {
  begin();
  discovery_.show();
  seek(6s);
  EXPECT_FALSE(findsGroup());
  group_ = {.rank = 1, .size = 2};
  EXPECT_TRUE(findsGroupSoon());
  EXPECT_EQ(stage(), Stage::kAsking);
  EXPECT_FALSE(settled());
  EXPECT_EQ(config_->rank, 1);
  EXPECT_TRUE(awaits_);
  EXPECT_EQ(nextLook(), Time::min());
  EXPECT_FALSE(findsGroup());  // no more is looked for
  tellMachines();
  seek(0s);
  EXPECT_EQ(stage(), Stage::kKnown);
  EXPECT_TRUE(settled());
  EXPECT_FALSE(awaits_);
  EXPECT_EQ(config_->local_rank, 1);
  EXPECT_EQ(config_->local_world_size, 2);
  EXPECT_EQ(config_->job_id, "job of rank 0");
  EXPECT_EQ(said_, (std::vector<std::string>{"first endpoint 0", "endpoint 1"}));
  EXPECT_TRUE(warned_.empty());
}

// It is not said where it is before the others have answered, or have been silent for two seconds.
TEST_F(RankDiscoveryTest, OthersThatAreSilentAreAwaitedAMinute) {
  group_ = {.rank = 1, .size = 2};
  begin();
  discovery_.show();
  EXPECT_TRUE(said_.empty());
  seekWithin(1s);
  EXPECT_TRUE(said_.empty());
  seek(3s);
  EXPECT_EQ(said_, (std::vector<std::string>{"first endpoint 1"}));
  seekWithin(59s);
  EXPECT_TRUE(awaits_);
  seek(61s);
  seek(62s);
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_NE(warned_[0].find("(other ranks have told nothing)"), std::string::npos);
  EXPECT_FALSE(awaits_);
  EXPECT_EQ(settled_, 1);  // its series are written, its part in the job's plan begins
  EXPECT_EQ(stage(), Stage::kAsking);
  tellMachines();  // late, and taken all the same
  seek(92s);
  EXPECT_TRUE(settled());
  EXPECT_EQ(config_->local_world_size, 2);
}

// One may never answer: Ebbtide is off there. The store is rank 0's, and all of a large job ask it.
TEST_F(RankDiscoveryTest, OthersThatStaySilentAreAskedTwiceAMinute) {
  group_ = {.rank = 1, .size = 2};
  begin();
  discovery_.show();
  const auto asked = [this](std::chrono::seconds from, std::chrono::seconds to) {
    const std::int64_t before = faults_ != nullptr ? faults_->calls : 0;
    const Time start = std::chrono::steady_clock::now();
    for (std::chrono::seconds at = from; at < to; at += 1s) discovery_.seek(start + at);
    return faults_->calls - before;
  };
  EXPECT_GE(asked(0s, 60s), 60);    // of which one says where this rank is
  asked(60s, 65s);                  // whichever of these begins the longer pauses
  EXPECT_LE(asked(65s, 665s), 20);  // 600 s, each 30 s
}

// Rank 0 of a task that starts two ranks has variables that are right: another rank inherits them.
TEST_F(RankDiscoveryTest, ARankThatIsToldAnswersTheOthers) {
  group_ = {.rank = 0, .size = 2};
  begin({.world_size = 2, .local_world_size = 2, .local_rank_told = true, .local_size_told = true});
  EXPECT_FALSE(awaits_);  // its budget holds at once
  (*contents_)["ebbtide/machine/1"] = machineIdentity();
  seek(0s);
  EXPECT_EQ((*contents_)["ebbtide/machines"], "job\n0 0 ");
  EXPECT_TRUE(settled());
  EXPECT_EQ(said_, kSaidFirst);
  EXPECT_TRUE(warned_.empty());
}

// srun's, say: of other ranks without Ebbtide it waits for nothing, and its place stays.
TEST_F(RankDiscoveryTest, ARankThatIsToldWaitsForNoAnswer) {
  group_ = {.rank = 1, .size = 4};
  begin({.rank = 1,
         .local_rank = 1,
         .world_size = 4,
         .local_world_size = 4,
         .local_rank_told = true,
         .local_size_told = true});
  seek(3s);
  EXPECT_EQ(said_, (std::vector<std::string>{"first endpoint 1"}));
  EXPECT_EQ(settled_, 1);
  seek(70s);
  EXPECT_EQ(settled_, 1);
  EXPECT_TRUE(warned_.empty());
  (*contents_)["ebbtide/machines"] = "job\n0 1 2 3 ";  // of containers, each with its name
  seek(101s);
  EXPECT_TRUE(settled());
  EXPECT_EQ(config_->local_world_size, 4);
}

// Variables of rank 0, which it has inherited: nothing of them is true of it.
TEST_F(RankDiscoveryTest, ARankThatInheritedAPlaceCountsOneProcessUntilItIsTold) {
  group_ = {.rank = 1, .size = 2};
  begin({.world_size = 2, .local_world_size = 2, .local_rank_told = true, .local_size_told = true});
  EXPECT_TRUE(awaits_);
  EXPECT_EQ(config_->rank, 1);
  EXPECT_EQ(config_->local_world_size, 1);  // as EB33 says
  tellMachines();
  seek(0s);
  EXPECT_EQ(config_->local_rank, 1);
  EXPECT_EQ(config_->local_world_size, 2);
}

TEST_F(RankDiscoveryTest, WithoutTheGroupsStoreItGoesOnAsOneProcess) {
  contents_ = nullptr;
  group_ = {.rank = 1, .size = 2};
  begin();
  seek(0s);
  EXPECT_TRUE(settled());
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_NE(warned_[0].find("(the store of its process group cannot be asked)"), std::string::npos);
}

TEST_F(RankDiscoveryTest, AStoreThatBreaksIsNotAskedAgain) {
  group_ = {.rank = 1, .size = 2};
  begin();
  seek(0s);  // tells, and finds no answer
  ASSERT_NE(faults_, nullptr);
  faults_->broken = true;
  seek(10s);
  EXPECT_TRUE(settled());
  ASSERT_EQ(warned_.size(), 1U);
  EXPECT_NE(warned_[0].find("(the connection was closed)"), std::string::npos);
}

// Else it would be settled as alone, and nobody would ask the group's ranks.
TEST_F(RankDiscoveryTest, AGroupThatIsFoundWhileItSettlesIsAsked) {
  begin();
  discovery_.show();
  group_comes_ = {.rank = 1, .size = 2};
  seek(6s);
  EXPECT_EQ(settled_, 1);
  EXPECT_FALSE(settled());
  EXPECT_EQ(stage(), Stage::kAsking);
}

// The one that was taken for local rank 0 before: it goes when it learns so.
TEST_F(RankDiscoveryTest, APortThatAnotherRankGivesUpIsTriedAgain) {
  begin();
  discovery_.show();
  EXPECT_EQ(served_, 1);
  group_ = {.rank = 1, .size = 2};
  EXPECT_TRUE(findsGroupSoon());
  tellMachines();
  busy_tries_ = 2;
  seek(0s);
  EXPECT_EQ(served_, 4);
  EXPECT_FALSE(on_any_port_);
  EXPECT_TRUE(warned_.empty());
}

TEST_F(RankDiscoveryTest, APortThatIsTakenIsSaidOnceItIsSettled) {
  busy_tries_ = 1;
  begin();
  discovery_.show();
  EXPECT_EQ(served_, 1);  // training waits for no port
  EXPECT_TRUE(on_any_port_);
  EXPECT_TRUE(warned_.empty());
  seek(6s);
  EXPECT_EQ(warned_, std::vector<std::string>{"the port is taken"});
}

TEST_F(RankDiscoveryTest, AtTheEndNobodyIsServed) {
  begin();
  ends_ = true;
  discovery_.settleAtEnd();
  EXPECT_EQ(served_, 0);
  EXPECT_EQ(said_, std::vector<std::string>{"first no endpoint"});
  EXPECT_EQ(settled_, 1);
  EXPECT_TRUE(settled());
}

TEST_F(RankDiscoveryTest, ARunThatEndsWhileOthersAreAskedStillSaysItsFirstLine) {
  group_ = {.rank = 1, .size = 2};
  begin();
  discovery_.show();
  seek(0s);  // asks, and nobody has answered
  EXPECT_TRUE(said_.empty());
  ends_ = true;
  discovery_.settleAtEnd();
  EXPECT_EQ(served_, 0);
  EXPECT_EQ(said_, std::vector<std::string>{"first no endpoint"});
}

// The run ends, so lines of the planning thread are not written any more. They are written at the
// end.
TEST_F(RankDiscoveryTest, WhatThePlanningThreadCannotSayAnyMoreIsSaidAtTheEnd) {
  expectProblemAtTheEnd([this] { ends_ = true; });
  EXPECT_EQ(settled_, 1);
}

TEST_F(RankDiscoveryTest, ARunThatEndsWhileThePlanningThreadServesSaysWhereAtTheEnd) {
  group_ = {.rank = 1, .size = 2};
  begin();
  tellMachines();
  ends_while_served_ = true;
  seek(0s);
  EXPECT_EQ(served_, 1);
  EXPECT_TRUE(said_.empty());
  discovery_.settleAtEnd();
  EXPECT_EQ(served_, 1);
  EXPECT_EQ(said_, std::vector<std::string>{"first endpoint 1"});
}

// The end begins once the planning thread has looked whether it does.
TEST_F(RankDiscoveryTest, AFirstLineThatTheEndSilencesIsSaidAtTheEnd) {
  group_ = {.rank = 1, .size = 2};
  begin();
  tellMachines();
  ends_while_said_ = true;
  seek(0s);
  EXPECT_TRUE(said_.empty());
  EXPECT_FALSE(settled());
  discovery_.settleAtEnd();
  EXPECT_EQ(said_, std::vector<std::string>{"first endpoint 1"});
  EXPECT_TRUE(settled());
}

TEST_F(RankDiscoveryTest, AProblemThatTheEndSilencesIsSaidAtTheEnd) {
  expectProblemAtTheEnd([this] { ends_while_warned_ = true; });
}

TEST_F(RankDiscoveryTest, WhatIsGivenUpIsNotLookedForAgain) {
  begin();
  discovery_.giveUp(guard_.hold());
  EXPECT_EQ(nextLook(), Time::max());
  seek(100s);
  EXPECT_EQ(settled_, 0);
}

}  // namespace
}  // namespace ebbtide::plugin
