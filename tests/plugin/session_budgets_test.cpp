// What a session foretells of budgets: for each program that runs, and for what there is.
#include <algorithm>
#include <set>

#include "controlled_session.hpp"
#include "ebbtide/allocator/host_address_space.hpp"

namespace ebbtide::plugin {
namespace {

using nlohmann::json;
using test::Answered;
using test::kMib;

class SessionBudgetsTest : public test::ControlledSession {};

TEST_F(SessionBudgetsTest, TheCurveComesPieceByPiece) {
  begin();
  for (int i = 0; i < 2; ++i) step();
  EXPECT_EQ(get("/v1/curve").body["state"], "computing");
  const json curve = wholeCurve([] {});
  EXPECT_EQ(curve["state"], "ready");
  EXPECT_GE(curve["points"].size(), 3u);
}

// What is recorded meanwhile is another program each time, and one that needs more.
TEST_F(SessionBudgetsTest, TheCurveBecomesWholeWhereStepsDiffer) {
  begin();
  scheduler::Trace trace = trace_;
  const auto grow = [&] {
    ++trace.signature;
    trace.base_bytes += kMib;
    step(trace);
  };
  for (int i = 0; i < 2; ++i) grow();
  EXPECT_EQ(get("/v1/curve").body["state"], "computing");
  const json curve = wholeCurve(grow);
  EXPECT_EQ(curve["state"], "ready");
  EXPECT_EQ(curve["points"].back()["predicted_peak_bytes"],
            plain_bytes_ + 2 * kMib);                      // as it began
  EXPECT_EQ(get("/v1/curve").body["state"], "computing");  // that of what is recorded now
}

// Of 100 GiB 0.5 % are kept free, not 1 MiB: 0.5 GiB, more than all that the steps could drop.
TEST_F(SessionBudgetsTest, ABudgetOfTheCurveGivesWhatItShows) {
  trace_.base_bytes += 100 * 1024 * kMib;
  begin();
  for (int i = 0; i < 2; ++i) step();
  const json points = wholeCurve([] {})["points"];
  ASSERT_GE(points.size(), 3u);
  const std::size_t apart = std::max<std::size_t>(1, points.size() / 8);
  for (std::size_t i = 0; i < points.size(); i += apart) {
    const json& point = points[i];
    const Answered answered = post("/v1/budget", {{"budget", point["budget_bytes"]}});
    ASSERT_EQ(answered.status, 200) << answered.body;
    // Better than shown where the curve's plan did not fit: it marks its own peak.
    ASSERT_TRUE(answered.body["overhead_ratio"].is_number()) << answered.body;
    EXPECT_LE(answered.body["overhead_ratio"], point["overhead_ratio"]);
  }
}

// -----------------------------------------------------------------------------------------------
// more than there is

// 16 TiB, more than any machine of these tests has: as PyTorch alone it would be ended.
TEST_F(SessionBudgetsTest, WhatWouldEndTheRunIsRefusedUnlessItIsForced) {
  trace_.base_bytes += 16 * 1024 * 1024 * kMib;
  const std::int64_t budget = plainPeak(trace_) - saved_bytes_ / 4;
  Session& session = begin(budget);
  for (int i = 0; i < 3; ++i) step();
  for (const auto& [path, body] : std::vector<std::pair<std::string, json>>{
           {"/v1/pause", {{"paused", true}}},
           {"/v1/pause", {{"paused", true}, {"force", false}}},
           {"/v1/budget", {{"budget", "none"}}},
           {"/v1/budget", {{"budget", 2 * budget}}}}) {
    const Answered refused = post(path, body);
    EXPECT_EQ(refused.status, 409) << body;
    EXPECT_EQ(refused.body["code"], "EB129") << body;
    const std::string why = refused.body["error"];
    EXPECT_NE(why.find(formatBytes(plainPeak(trace_))), std::string::npos) << why;
    EXPECT_NE(why.find("force"), std::string::npos) << why;
  }
  step();
  EXPECT_EQ(session.trained().budgetBytes(), budget);
  EXPECT_EQ(post("/v1/pause", {{"paused", true}, {"force", 1}}).status, 400);
  EXPECT_EQ(post("/v1/pause", {{"paused", true}, {"force", true}}).status, 200);
  step();
  EXPECT_EQ(get("/v1/status").body["state"], "paused");
  EXPECT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  step();
  EXPECT_EQ(post("/v1/budget", {{"budget", "none"}, {"force", true}}).status, 200);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);
  // As it is now: nothing to refuse.
  EXPECT_EQ(post("/v1/pause", {{"paused", true}}).status, 200);
}

TEST_F(SessionBudgetsTest, AGpuIsOnlySoLarge) {
  std::int64_t most = plain_bytes_ - kMib;
  allocator::DeviceMemory memory(allocator::makeHostAddressSpace(), allocator::makeHostEvents(),
                                 {.reserve_bytes = allocator::hostReserveBytes()});
  memory.setBudget(plain_bytes_ - 2 * kMib);
  begin(plain_bytes_ - 2 * kMib);
  session_->trainOn(memory, session_->trained().spills(), nullptr, [&most] { return most; });
  for (int i = 0; i < 3; ++i) step();
  const Answered refused = post("/v1/pause", {{"paused", true}});
  EXPECT_EQ(refused.status, 409);
  EXPECT_NE(refused.body["error"].get<std::string>().find(formatBytes(most)), std::string::npos);
  most = plain_bytes_;
  EXPECT_EQ(post("/v1/pause", {{"paused", true}}).status, 200);
  session_->shutdown();
  session_.reset();
}

TEST_F(SessionBudgetsTest, BeforeAnythingIsKnownAPauseNeedsNoPlanningThread) {
  begin(plain_bytes_);
  const Answered paused = post("/v1/pause", {{"paused", true}});
  EXPECT_EQ(paused.status, 200);
  EXPECT_EQ(paused.body["from_step"], 1);
}

// A pause under a budget is answered by the planning thread, after what was asked before; going on
// is not. Whichever comes first, the last one that was asked for is what the run does.
TEST_F(SessionBudgetsTest, APauseThatComesLateLosesToGoingOn) {
  begin(plain_bytes_ + 4 * kMib);
  for (int i = 0; i < 3; ++i) step();
  for (int turn = 0; turn < 10; ++turn) {
    auto budget = ask("POST", "/v1/budget", {{"budget", plain_bytes_ + 5 * kMib}});
    auto paused = ask("POST", "/v1/pause", {{"paused", true}});
    EXPECT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
    const int status = paused.get().status;
    EXPECT_TRUE(status == 200 || status == 409) << status;
    budget.get();
    step();
    EXPECT_EQ(get("/v1/status").body["state"], "training") << status;
  }
}

// -----------------------------------------------------------------------------------------------
// programs that take turns

// The long one has a plan and is recorded no more; by steps the short one is the main program.
TEST_F(SessionBudgetsTest, ABudgetIsForAllProgramsThatRun) {
  const scheduler::Trace shorter = this->shorter(8);
  Session& session = begin();
  step();
  for (int i = 0; i < 6; ++i) step(shorter);
  const std::int64_t for_short_ones = plainPeak(shorter) + 4 * kMib;
  const Answered refused = post("/v1/budget", {{"budget", for_short_ones}});
  ASSERT_EQ(refused.status, 409) << refused.body;
  const std::int64_t smallest = refused.body["smallest_feasible_budget_bytes"];
  EXPECT_GT(smallest, for_short_ones);
  EXPECT_LT(smallest, plain_bytes_);

  const std::int64_t budget = plain_bytes_ - saved_bytes_ / 4;
  const Answered answered = post("/v1/budget", {{"budget", budget}});
  ASSERT_EQ(answered.status, 200) << answered.body;
  EXPECT_GT(answered.body["predicted_peak_bytes"], plainPeak(shorter));
  EXPECT_LE(answered.body["predicted_peak_bytes"], budget);
  EXPECT_GT(answered.body["overhead_ratio"], 0);
  session.beginStep();
  const auto plan = session.course().planFor(trace_.ops[0].signature, /*trains=*/true);
  ASSERT_NE(plan, nullptr);  // of the only one that needs one, when it comes
  EXPECT_EQ(plan->signature, trace_.signature);
  EXPECT_EQ(plan->predicted.peak_bytes, answered.body["predicted_peak_bytes"]);
}

TEST_F(SessionBudgetsTest, EachProgramThatDoesNotFitHasAPlanFromTheFirstStepOn) {
  const scheduler::Trace shorter = this->shorter(2);
  const std::int64_t held = trace_.base_bytes;
  // Nothing here depends on how good a plan is, so little work is enough. After 10 s no further
  // program's search begins.
  config_.planning.work = 100'000;
  Session& session = begin();
  for (int i = 0; i < 2; ++i) {
    step();
    step(shorter);
  }
  const std::int64_t budget = plainPeak(shorter) - (plainPeak(shorter) - held) / 8 + 2 * kMib;
  ASSERT_EQ(post("/v1/budget", {{"budget", budget}}).status, 200);
  std::set<std::uint64_t> planned;
  for (int i = 0; i < 2; ++i) {
    const auto plan = i % 2 == 0 ? step() : step(shorter);
    ASSERT_NE(plan, nullptr) << i;
    planned.insert(plan->signature);
  }
  EXPECT_EQ(planned, (std::set<std::uint64_t>{trace_.signature, shorter.signature}));
  EXPECT_EQ(session.trained().budgetBytes(), budget);
}

TEST_F(SessionBudgetsTest, CurveAndPictureAreOfTheProgramThatNeedsMost) {
  const scheduler::Trace shorter = this->shorter(8);
  begin();
  step();
  for (int i = 0; i < 3; ++i) step(shorter);
  const json curve = wholeCurve([&] { step(shorter); });
  EXPECT_EQ(curve["points"].back()["predicted_peak_bytes"], plain_bytes_);
  json plan;
  ASSERT_TRUE(comesTrue([&, longer = false]() mutable {
    longer = !longer;
    step(longer ? trace_ : shorter);
    plan = get("/v1/plan").body;
    return !plan["areas"].empty();
  }));
  std::vector<std::int64_t> sums(plan["area_seconds"].size(), 0);
  for (const json& area : plan["areas"]) {
    for (std::size_t at = 0; at < sums.size(); ++at)
      sums[at] += area["live_bytes"][at].get<std::int64_t>();
  }
  ASSERT_FALSE(sums.empty());
  EXPECT_EQ(*std::max_element(sums.begin(), sums.end()), plain_bytes_);
}

}  // namespace
}  // namespace ebbtide::plugin
