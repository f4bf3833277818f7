// What a session answers to its clients.
#include "control/session_control.hpp"

#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

using nlohmann::json;
using test::Answered;
using test::kMib;

class SessionControlTest : public test::ControlledSession {};

TEST_F(SessionControlTest, BeforeTheFirstStepThereIsNothingToPlanWith) {
  begin();
  EXPECT_EQ(get("/v1/status").body["state"], "starting");
  EXPECT_EQ(get("/v1/status").body["step_seconds"]["median"], json());
  EXPECT_EQ(get("/v1/plan").body["timeline"], json());
  EXPECT_EQ(get("/v1/curve").body["state"], "none");
  const Answered refused = post("/v1/budget", {{"budget", "1GiB"}});
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.body["code"], "EB126");
}

TEST_F(SessionControlTest, ABudgetIsPromisedForTheStepAfterTheOneThatRuns) {
  Session& session = begin();
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t budget = plain_bytes_ - saved_bytes_ / 2 + 8 * kMib;
  // Three steps are over, none runs: the fourth.
  const Answered first = post("/v1/budget", {{"budget", budget}});
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first.body["budget_bytes"], budget);
  EXPECT_EQ(first.body["before_bytes"], json());
  EXPECT_EQ(first.body["from_step"], 4);
  EXPECT_LE(first.body["predicted_peak_bytes"], budget);
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);  // due

  const StepStart start = session.beginStep();  // the fourth
  EXPECT_EQ(session.trained().budgetBytes(), budget);
  ASSERT_NE(start.plan, nullptr);  // of that very step
  EXPECT_EQ(start.plan->predicted.peak_bytes, first.body["predicted_peak_bytes"]);
  EXPECT_FALSE(start.plan->trusted);  // nothing has been compared: it is verified
  const Answered second = post("/v1/budget", {{"budget", "none"}});
  EXPECT_EQ(second.body["from_step"], 5);  // the fourth runs
  EXPECT_EQ(second.body["before_bytes"], budget);
  EXPECT_EQ(second.body["predicted_peak_bytes"], plain_bytes_);
  end(start, /*recorded=*/false);
  EXPECT_EQ(step(), nullptr);  // nothing is dropped any more
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);
}

TEST_F(SessionControlTest, ABudgetThatIsTooSmallIsRefusedWithOneThatWouldDo) {
  const std::int64_t before = 4 * plain_bytes_ + (std::int64_t{1} << 30);
  Session& session = begin(before);
  for (int i = 0; i < 3; ++i) step();
  const Answered refused = post("/v1/budget", {{"budget", 1}});
  ASSERT_EQ(refused.status, 409) << refused.body;
  EXPECT_EQ(refused.body["code"], "EB128");
  const std::int64_t smallest = refused.body["smallest_feasible_budget_bytes"];
  EXPECT_GT(smallest, 0);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), before);
  EXPECT_EQ(get("/v1/status").body["smallest_feasible_budget_bytes"], smallest);
  // 3 %, at least 2 MiB, are to spare in it, and up to a MiB by rounding up: 1 MiB of headroom is
  // all that has to be there.
  EXPECT_EQ(post("/v1/budget", {{"budget", smallest - smallest / 30 - 4 * kMib}}).status, 409);
  EXPECT_EQ(post("/v1/budget", {{"budget", smallest - kMib}}).status, 200);
}

// The program asks for more than it did when the budget was planned for: a request ends no run.
TEST_F(SessionControlTest, ABudgetThatProvesTooSmallIsTakenBack) {
  const std::int64_t before = 4 * plain_bytes_ + (std::int64_t{1} << 30);
  Session& session = begin(before);
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t budget = plain_bytes_ - saved_bytes_ / 2 + 8 * kMib;
  ASSERT_EQ(post("/v1/budget", {{"budget", budget}}).status, 200);
  const StepStart start = session.beginStep();
  EXPECT_EQ(session.trained().budgetBytes(), budget);
  void* block = allocateOver(budget);
  ASSERT_NE(block, nullptr);
  end(start);
  session.trained().memory().deallocate(block);
  EXPECT_FALSE(isRefused());
  step();
  EXPECT_EQ(session.trained().budgetBytes(), before);
  EXPECT_FALSE(isRefused());
}

// Also once steps under it have shown that it is possible: blocks may come to lie badly.
TEST_F(SessionControlTest, AStepThatGoesOverAnAskedBudgetLaterTakesItBack) {
  const std::int64_t before = 4 * plain_bytes_ + (std::int64_t{1} << 30);
  Session& session = begin(before);
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t budget = plain_bytes_ - saved_bytes_ / 2 + 8 * kMib;
  ASSERT_EQ(post("/v1/budget", {{"budget", budget}}).status, 200);
  for (int i = 0; i < 4; ++i) step();
  ASSERT_EQ(session.trained().budgetBytes(), budget);
  const StepStart start = session.beginStep();
  void* block = allocateOver(budget);
  ASSERT_NE(block, nullptr);
  end(start, /*recorded=*/false);
  session.trained().memory().deallocate(block);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), before);
  EXPECT_FALSE(isRefused());
}

TEST_F(SessionControlTest, APauseLiftsTheBudgetAndKeepsThePlan) {
  const std::int64_t budget = plain_bytes_ - saved_bytes_ / 2 + 8 * kMib;
  Session& session = begin();
  for (int i = 0; i < 3; ++i) step();
  ASSERT_EQ(post("/v1/budget", {{"budget", budget}}).status, 200);
  const auto plan = step();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(post("/v1/pause", {{"paused", true}}).body["from_step"], 5);
  EXPECT_EQ(step(), nullptr);
  EXPECT_TRUE(session.drops().keepsEverything());
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);
  EXPECT_EQ(get("/v1/status").body["state"], "paused");
  EXPECT_EQ(get("/v1/status").body["mode"], "paused");
  EXPECT_EQ(post("/v1/budget", {{"budget", budget}}).status, 409);
  const Answered refused = post("/v1/replan");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.body["code"], "EB43");  // as the line has it that said the pause
  EXPECT_EQ(post("/v1/pause", {{"paused", false}}).body["from_step"], 6);
  EXPECT_EQ(step(), plan);
  EXPECT_EQ(session.trained().budgetBytes(), budget);
  EXPECT_EQ(get("/v1/status").body["mode"], "budget");
  EXPECT_FALSE(session.drops().keepsEverything());
}

// Of another thread, say: what it holds was planned under the older budget, or not at all.
TEST_F(SessionControlTest, AStepOfTheOlderBudgetIsNoWordOnAnAskedOne) {
  const std::int64_t before = 4 * plain_bytes_ + (std::int64_t{1} << 30);
  Session& session = begin(before);
  for (int i = 0; i < 3; ++i) step();
  const StepStart older = session.beginStep();
  const std::int64_t budget = plain_bytes_ - saved_bytes_ / 2 + 8 * kMib;
  ASSERT_EQ(post("/v1/budget", {{"budget", budget}}).status, 200);
  const StepStart beside = session.beginStep();
  ASSERT_EQ(session.trained().budgetBytes(), budget);
  void* block = allocateOver(budget);
  ASSERT_NE(block, nullptr);
  end(beside);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), budget);
  session.trained().memory().deallocate(block);
  end(older);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(session.trained().budgetBytes(), budget);
  // From here on the budget's own steps run.
  const StepStart own = session.beginStep();
  block = allocateOver(budget);
  end(own);
  session.trained().memory().deallocate(block);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), before);
}

TEST_F(SessionControlTest, AStepThatRanThroughThePauseEndsNoRun) {
  const std::int64_t budget = plain_bytes_ + 64 * kMib;
  Session& session = begin(budget);
  for (int i = 0; i < 3; ++i) step();
  ASSERT_EQ(post("/v1/pause", {{"paused", true}}).status, 200);
  step();
  const StepStart older = session.beginStep();
  ASSERT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  const StepStart beside = session.beginStep();
  ASSERT_EQ(session.trained().budgetBytes(), budget);
  void* block = allocateOver(budget);
  ASSERT_NE(block, nullptr);
  end(beside);
  EXPECT_FALSE(isRefused());
  step();
  session.trained().memory().deallocate(block);
  end(older);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_FALSE(isRefused());
  EXPECT_EQ(session.trained().budgetBytes(), budget);
  EXPECT_EQ(get("/v1/status").body["state"], "training");
  EXPECT_EQ(allocateOver(budget), nullptr);  // its own steps were within it: it is kept again
}

// The program asks for more than before the pause.
TEST_F(SessionControlTest, WhatCannotGoOnIsPausedAgain) {
  const std::int64_t budget = plain_bytes_ + 64 * kMib;
  Session& session = begin(budget);
  for (int i = 0; i < 3; ++i) step();
  ASSERT_EQ(post("/v1/pause", {{"paused", true}}).status, 200);
  step();
  ASSERT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  const StepStart start = session.beginStep();
  ASSERT_EQ(session.trained().budgetBytes(), budget);
  void* block = allocateOver(budget);
  ASSERT_NE(block, nullptr);
  end(start);
  session.trained().memory().deallocate(block);
  EXPECT_FALSE(isRefused());
  step();
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);
  EXPECT_EQ(get("/v1/status").body["state"], "paused");
  // It may be asked to go on again.
  ASSERT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(session.trained().budgetBytes(), budget);
  EXPECT_FALSE(isRefused());
}

// Of several threads one step at a time is recorded: the others' ends must not use up those that
// were to be.
TEST_F(SessionControlTest, WhatGoesOnIsRecordedUntilItsBudgetIsKnownToHold) {
  const std::int64_t budget = plain_bytes_ + 64 * kMib;
  Session& session = begin(budget);
  for (int i = 0; i < 3; ++i) step();
  ASSERT_EQ(post("/v1/pause", {{"paused", true}}).status, 200);
  step();
  ASSERT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  StepSummary followed;  // its plan, to the end
  followed.plan = std::make_shared<Plan>();
  for (int i = 0; i < 6; ++i) end(session.beginStep(), /*recorded=*/false);
  EXPECT_TRUE(session.course().wantsTrace(followed));
  for (int i = 0; i < 4; ++i) step();  // two decide
  EXPECT_FALSE(session.course().wantsTrace(followed));
  EXPECT_EQ(allocateOver(budget), nullptr);
}

TEST_F(SessionControlTest, WhatWentOverItBeforeAPauseTakesNoBudgetBack) {
  Session& session = begin();
  for (int i = 0; i < 3; ++i) step();
  const std::int64_t budget = plain_bytes_ + 64 * kMib;
  ASSERT_EQ(post("/v1/budget", {{"budget", budget}}).status, 200);
  step();
  const StepStart start = session.beginStep();
  ASSERT_EQ(session.trained().budgetBytes(), budget);
  void* block = allocateOver(budget);
  ASSERT_EQ(post("/v1/pause", {{"paused", true}}).status, 200);
  end(start);
  session.trained().memory().deallocate(block);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(get("/v1/status").body["mode"], "paused");
  ASSERT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  EXPECT_EQ(get("/v1/status").body["mode"], "paused");  // until the next step begins
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(session.trained().budgetBytes(), budget);
  EXPECT_EQ(get("/v1/status").body["mode"], "budget");
}

TEST_F(SessionControlTest, BodiesThatAreNoneAreRefused) {
  begin();
  for (const json& body : {json(), json(3), json::array(), json{{"size", 1}}, json{{"budget", -1}},
                           json{{"budget", 1.5}}, json{{"budget", "30GB"}}, json{{"budget", ""}},
                           json{{"budget", json()}}, json{{"budget", 1}, {"more", 2}}}) {
    const Answered answered = post("/v1/budget", body);
    EXPECT_EQ(answered.status, 400) << body;
    EXPECT_EQ(answered.body["code"], "EB104") << body;
    EXPECT_FALSE(answered.body["error"].get<std::string>().empty());
  }
  EXPECT_EQ(post("/v1/pause", {{"paused", 1}}).status, 400);
  EXPECT_EQ(post("/v1/replan", {{"x", 1}}).status, 400);
  EXPECT_EQ(post("/v1/pause").status, 400);
  EXPECT_EQ(ask("POST", "/v1/pause", {{"paused", true}}, /*may_change=*/false).get().status, 403);
  EXPECT_EQ(post("/v1/trace").status, 400);  // of how many steps?
  EXPECT_EQ(post("/v1/trace", {{"steps", 1}, {"more", 2}}).status, 400);
  EXPECT_EQ(post("/v1/snapshot", {{"more", 2}}).status, 400);
  EXPECT_EQ(post("/v1/snapshot", {{"path", "/tmp/x"}}).status, 400);
  EXPECT_EQ(post("/v1/budget", {{"budget", "1GiB"}, {"force", "yes"}}).status, 400);
}

// A path's bytes need not be text: what was begun is answered, and what is asked for is told.
TEST_F(SessionControlTest, FoldersWithNamesThatAreNoTextAreTold) {
  config_.files.trace_dir = folder_.string() + "-\xff";
  config_.server.socket_dir = folder_.string() + "-\xfe";
  begin();
  EXPECT_EQ(post("/v1/trace", {{"steps", 1}}).status, 202);
  EXPECT_EQ(post("/v1/snapshot").status, 200);
  EXPECT_EQ(get("/v1/config").status, 200);
  session_->shutdown();
  std::filesystem::remove_all(config_.files.trace_dir);
  std::filesystem::remove_all(config_.server.socket_dir);
}

TEST_F(SessionControlTest, WhatIsAskedOfAnotherRankIsNotAnsweredHere) {
  begin();
  const auto asked = [this](const std::string& method, const std::string& path,
                            const std::string& rank) {
    int status = 0;
    session_->routes().answer(
        {.method = method,
         .path = path,
         .query = {{"rank", rank}},
         .body = R"({"paused": true})",
         .may_change = true},
        [&status](const metrics::Response& response) { status = response.status; });
    return status;
  };
  EXPECT_EQ(asked("GET", "/v1/status", "0"), 200);
  for (const char* rank : {"1", "-1", "99999999999", "x"}) {
    for (const char* path : {"/metrics", "/v1/status", "/v1/plan", "/v1/curve", "/v1/config"}) {
      EXPECT_EQ(asked("GET", path, rank), 404) << path << " " << rank;
    }
    for (const char* path :
         {"/v1/pause", "/v1/budget", "/v1/replan", "/v1/trace", "/v1/snapshot"}) {
      EXPECT_EQ(asked("POST", path, rank), 404) << path << " " << rank;
    }
  }
  EXPECT_EQ(get("/v1/status").body["state"], "starting");
}

// All are answered, the more the merrier: planned for, or refused because others wait.
TEST_F(SessionControlTest, ManyAtOnceAreAllAnswered) {
  begin();
  for (int i = 0; i < 2; ++i) step();
  std::vector<std::future<Answered>> asked;
  for (int i = 0; i < 50; ++i)
    asked.push_back(ask("POST", "/v1/budget", {{"budget", plain_bytes_ + (100 + i) * kMib}}));
  int planned = 0;
  for (auto& one : asked) {
    const int status = one.get().status;
    planned += status == 200 ? 1 : 0;
    EXPECT_TRUE(status == 200 || status == 429) << status;
  }
  EXPECT_GE(planned, 1);
  EXPECT_EQ(get("/v1/status").status, 200);
}

// Requests that wait while the run ends, and those that come after it.
TEST_F(SessionControlTest, TheEndIsAnAnswerToo) {
  begin();
  for (int i = 0; i < 2; ++i) step();
  std::vector<std::future<Answered>> asked;
  for (int i = 0; i < 4; ++i)
    asked.push_back(ask("POST", "/v1/budget", {{"budget", plain_bytes_ + 100 * kMib}}));
  session_->shutdown();
  for (auto& one : asked) {
    const int status = one.get().status;
    EXPECT_TRUE(status == 200 || status == 503) << status;
  }
  EXPECT_EQ(post("/v1/budget", {{"budget", "1GiB"}}).status, 503);
  EXPECT_EQ(post("/v1/replan").status, 503);
  EXPECT_EQ(post("/v1/pause", {{"paused", true}}).status, 503);
  EXPECT_EQ(post("/v1/trace", {{"steps", 1}}).status, 503);
  EXPECT_EQ(post("/v1/snapshot").status, 503);
  EXPECT_EQ(get("/v1/status").body["state"], "ended");
}

TEST_F(SessionControlTest, TheStatusHasTheLastSteps) {
  begin();
  for (int i = 0; i < 125; ++i) step();
  const json status = get("/v1/status").body;
  EXPECT_EQ(status["steps"], 125);
  EXPECT_EQ(status["mode"], "measure");
  EXPECT_EQ(status["job_id"], "job");
  ASSERT_EQ(status["history"]["steps"].size(), 120u);  // of 125 the last ones: 6 to 125
  EXPECT_EQ(status["history"]["steps"].front(), 6);
  EXPECT_EQ(status["history"]["steps"].back(), 125);
}

TEST_F(SessionControlTest, WithoutAPlanTheAreasAreOfWhatIsKept) {
  begin();
  for (int i = 0; i < 2; ++i) step();
  json plan;
  ASSERT_TRUE(comesTrue([&] {
    plan = get("/v1/plan").body;
    return !plan["areas"].empty();
  }));
  EXPECT_EQ(plan["plan"], json());
  std::vector<std::int64_t> sums(plan["area_seconds"].size(), 0);
  for (const json& area : plan["areas"]) {
    EXPECT_TRUE(area["action"] == "kept" || area["action"] == "base") << area["label"];
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += area["live_bytes"][i].get<std::int64_t>();
  }
  EXPECT_EQ(*std::max_element(sums.begin(), sums.end()), plain_bytes_);
}

}  // namespace
}  // namespace ebbtide::plugin
