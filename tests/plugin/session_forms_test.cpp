// A budget in words, of a session without torch: measured first, then bytes as any other.
#include <map>

#include "control/session_control.hpp"
#include "controlled_session.hpp"
#include "ebbtide/allocator/host_address_space.hpp"

namespace ebbtide::plugin {
namespace {

using nlohmann::json;
using test::Answered;
using test::kMib;

class SessionFormsTest : public test::ControlledSession {
 protected:
  Session& beginWith(const std::string& text) {
    config_.budget.text = text;
    config_.budget.form = scheduler::BudgetForm::parse("EBBTIDE_BUDGET", text);
    config_.log_level = "info";
    testing::internal::CaptureStderr();
    session_ = std::make_unique<Session>(config_, "", &SessionControl::makeFor);
    session_->wake(1);
    return *session_;
  }
  std::string said() { return testing::internal::GetCapturedStderr(); }
  // What lives from now on when a step begins: the optimizer's state.
  void keep(std::int64_t bytes) {
    kept_.push_back(session_->trained().memory().allocate(static_cast<std::size_t>(bytes),
                                                          allocator::Stream::kDefault));
  }
  void TearDown() override {
    for (void* block : kept_) session_->trained().memory().deallocate(block);
  }
  std::vector<void*> kept_;
};

// The base of both steps is the same: what step 1 took holds from step 2 on.
TEST_F(SessionFormsTest, HalfOfTheActivationsLessFromStepTwoOn) {
  const std::int64_t half = plain_bytes_ - saved_bytes_ / 2;
  Session& session = beginWith("-50%");
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);
  EXPECT_EQ(get("/v1/status").body["mode"], "measure");
  step();
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), half);
  EXPECT_EQ(get("/v1/status").body["mode"], "budget");
  EXPECT_EQ(get("/v1/status").body["memory"]["budget_bytes"], half);
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(session.trained().budgetBytes(), half);
  const std::string text = said();
  EXPECT_NE(text.find("measuring until the bytes of -50% are known"), std::string::npos) << text;
  const std::string line = "the budget -50% is " + formatBytes(half) +
                           " from step 2 on: plain peak " + formatBytes(plain_bytes_) +
                           ", activations " + formatBytes(saved_bytes_);
  const std::size_t at = text.find(line);
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find("the budget -50%", at + 1), std::string::npos) << text;  // once
}

TEST_F(SessionFormsTest, AShareOfThePeak) {
  Session& session = beginWith("60%peak");
  for (int i = 0; i < 2; ++i) step();
  EXPECT_EQ(session.trained().budgetBytes(),
            static_cast<std::int64_t>(60.0 * static_cast<double>(plain_bytes_) / 100));
  said();
}

// AdamW: the update of step 1 makes as much as lives there twice more; its step is 64 MiB larger.
TEST_F(SessionFormsTest, TheOptimizersStateCounts) {
  constexpr std::int64_t kState = 64 * kMib;
  Session& session = beginWith("-50%");
  keep(32 * kMib);  // the parameters
  step();
  keep(kState);
  scheduler::Trace later = trace_;
  later.base_bytes += kState;
  step(later);
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);  // the base grew
  step(later);
  EXPECT_EQ(session.trained().budgetBytes(), plain_bytes_ + kState - saved_bytes_ / 2);
  EXPECT_NE(said().find("from step 3 on"), std::string::npos);
}

TEST_F(SessionFormsTest, OfSeveralProgramsThatWhichNeedsMostCounts) {
  Session& session = beginWith("-50%");
  step(shorter(8));
  keep(kMib);
  step();
  keep(kMib);
  step(shorter(4));
  step();
  EXPECT_EQ(session.trained().budgetBytes(), plain_bytes_ - saved_bytes_ / 2);
  said();
}

// Nothing was recorded: it is measured on.
TEST_F(SessionFormsTest, AStepThatIsNotRecordedMeasuresNothing) {
  Session& session = beginWith("-50%");
  for (int i = 0; i < 5; ++i) end(session.beginStep(), /*recorded=*/false);
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);
  step();
  step();
  EXPECT_EQ(session.trained().budgetBytes(), plain_bytes_ - saved_bytes_ / 2);
  said();
}

// Another budget is asked for, then that of the environment holds again, by its bytes.
TEST_F(SessionFormsTest, APauseAndAnotherBudgetChangeNothingOfIt) {
  Session& session = beginWith("-50%");
  for (int i = 0; i < 3; ++i) step();
  const auto half = session.trained().budgetBytes();
  ASSERT_TRUE(half);
  ASSERT_EQ(post("/v1/pause", {{"paused", true}, {"force", true}}).status, 200);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);
  ASSERT_EQ(post("/v1/pause", {{"paused", false}}).status, 200);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), half);
  said();
}

// The line tells that there is none, not the bytes of the one that is gone.
TEST_F(SessionFormsTest, NoneIsToldAsNone) {
  Session& session = beginWith("-50%");
  for (int i = 0; i < 3; ++i) step();
  ASSERT_TRUE(session.trained().budgetBytes());
  ASSERT_EQ(post("/v1/budget", {{"budget", "none"}}).status, 200);
  step();
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);
  const std::string text = said();
  const std::size_t at = text.find("the budget is none from step 4 on");
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find("-50%", at), std::string::npos) << text;
}

TEST_F(SessionFormsTest, OneThatIsAskedForWhileItWaitsHolds) {
  Session& session = beginWith("-50%");
  keep(kMib);
  step();
  keep(kMib);
  ASSERT_EQ(post("/v1/budget", {{"budget", plain_bytes_}}).status, 200);
  for (int i = 0; i < 4; ++i) step();
  EXPECT_EQ(session.trained().budgetBytes(), plain_bytes_);
  EXPECT_EQ(said().find("the budget -50%"), std::string::npos);
}

// -----------------------------------------------------------------------------------------------
// over HTTP

// By then all is known: from the next step on, and the answer has the bytes.
TEST_F(SessionFormsTest, AskedForTheyAreKnownAtOnce) {
  Session& session = begin();
  for (int i = 0; i < 3; ++i) step();
  const std::map<std::string, std::int64_t> forms = {
      {"-50%", plain_bytes_ - saved_bytes_ / 2},
      {" - 25 % ", plain_bytes_ - saved_bytes_ / 4},
      {"90%PEAK", static_cast<std::int64_t>(90.0 * static_cast<double>(plain_bytes_) / 100)},
      {"80%", usableMemoryBytes() / 5 * 4},
      {"1 gib", std::int64_t{1} << 30}};
  for (const auto& [text, bytes] : forms) {
    const Answered answered = post("/v1/budget", {{"budget", text}});
    ASSERT_EQ(answered.status, 200) << text << answered.body;
    EXPECT_NEAR(answered.body["budget_bytes"].get<double>(), static_cast<double>(bytes), 8) << text;
    EXPECT_LE(answered.body["predicted_peak_bytes"], answered.body["budget_bytes"]) << text;
    step();
    EXPECT_EQ(session.trained().budgetBytes(), answered.body["budget_bytes"].get<std::int64_t>())
        << text;
  }
  const Answered free = post("/v1/budget", {{"budget", "AUTO"}});
  ASSERT_EQ(free.status, 200) << free.body;
  EXPECT_LE(free.body["budget_bytes"], usableMemoryBytes());
  EXPECT_GT(free.body["budget_bytes"], 0);
  EXPECT_EQ(post("/v1/budget", {{"budget", "None"}, {"force", true}}).body["budget_bytes"], json());
}

TEST_F(SessionFormsTest, OneBelowTheSmallestIsRefusedWithThat) {
  trace_.base_bytes += 4 * plain_bytes_;  // 1 % of the peak is less than what always lives
  begin();
  for (int i = 0; i < 3; ++i) step();
  const Answered refused = post("/v1/budget", {{"budget", "1%peak"}});
  EXPECT_EQ(refused.status, 409) << refused.body;
  EXPECT_EQ(refused.body["code"], "EB128");
  EXPECT_GT(refused.body["smallest_feasible_budget_bytes"], trace_.base_bytes);
}

TEST_F(SessionFormsTest, BeforeTheBaseIsSettledItIsAskedForLater) {
  begin();
  step();
  const Answered early = post("/v1/budget", {{"budget", "-50%"}});
  EXPECT_EQ(early.status, 503) << early.body;
  EXPECT_EQ(early.body["code"], "EB127");
  EXPECT_NE(early.body["error"].get<std::string>().find("again in 3 steps"), std::string::npos);
  EXPECT_EQ(post("/v1/budget", {{"budget", "1GiB"}}).status, 200);
}

TEST_F(SessionFormsTest, WhatIsNoneIsRefused) {
  begin();
  for (int i = 0; i < 3; ++i) step();
  for (const char* text : {"80", "-50", "60peak", "automatic", "-101%", "30GB", ""}) {
    const Answered refused = post("/v1/budget", {{"budget", text}});
    EXPECT_EQ(refused.status, 400) << text;
  }
  EXPECT_NE(post("/v1/budget", {{"budget", "80"}})
                .body["error"]
                .get<std::string>()
                .find("did you mean 80%"),
            std::string::npos);
}

// -----------------------------------------------------------------------------------------------
// of a GPU

// Others hold a part of the GPU. Without a budget a step may have all of it.
TEST_F(SessionFormsTest, AGpusBudgetIsItsOwn) {
  allocator::DeviceMemory memory(allocator::makeHostAddressSpace(), allocator::makeHostEvents(),
                                 {.reserve_bytes = allocator::hostReserveBytes()});
  const std::int64_t most = 4 * plain_bytes_;
  memory.setBudget(most);
  Session& session = beginWith("-50%");
  std::vector<std::string> set;
  session.trainOn(
      memory, session.trained().spills(),
      [&](const std::string& size) {
        set.push_back(size);
        memory.setBudget(size.empty() ? most : std::stoll(size));
      },
      [&] { return most; },
      [&] {
        return scheduler::BudgetFacts{.memory_bytes = most, .available_bytes = most - plain_bytes_};
      });
  EXPECT_EQ(session.trained().budgetBytes(), std::nullopt);  // all of it is none
  for (int i = 0; i < 2; ++i) step();
  EXPECT_EQ(session.trained().budgetBytes(), plain_bytes_ - saved_bytes_ / 2);
  EXPECT_EQ(set, std::vector<std::string>{std::to_string(plain_bytes_ - saved_bytes_ / 2)});
  for (int i = 0; i < 2; ++i) step();
  EXPECT_EQ(post("/v1/budget", {{"budget", "50%"}}).body["budget_bytes"], most / 2);
  EXPECT_EQ(post("/v1/budget", {{"budget", "auto"}}).body["budget_bytes"], most - plain_bytes_);
  said();
  session_->shutdown();
  session_.reset();
}

}  // namespace
}  // namespace ebbtide::plugin
