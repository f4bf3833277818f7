// What a session says of a disk that takes nothing.
#include "controlled_session.hpp"
#include "out_of_memory/live_shares.hpp"
#include "runtime/budget/out_of_memory_text.hpp"

namespace ebbtide::plugin {
namespace {

using test::kMib;

class SessionSpillingTest : public test::ControlledSession {
 protected:
  // As the executor does where memory is short.
  void failToSpill() {
    const std::string value(SpillTarget::kLeastBytes, 'x');
    const auto slot = session_->trained().spills().write(value.data(), SpillTarget::kLeastBytes,
                                                         SpillTarget::Afterwards::kFreed);
    EXPECT_FALSE(slot.has_value());
    session_->outage().begin();
  }
  std::shared_ptr<const Plan> inForce() {
    return session_->course().planFor(trace_.ops.front().signature, /*trains=*/true);
  }
  // Whatever was asked before has been answered: the planning thread refuses this after that.
  void settle() { EXPECT_NE(post("/v1/budget", {{"budget", 1}}).status, 200); }
};

// ENOENT is 2. Said once, however often it fails; each error has it.
TEST_F(SessionSpillingTest, ErrorsNameTheDiskThatTookNothing) {
  const std::string why =
      "cannot make a spill file in /no/such/folder: No such file or directory (errno 2)";
  config_.files.spill_dir = "/no/such/folder";
  config_.log_level = "info";
  testing::internal::CaptureStderr();
  begin(plain_bytes_);
  failToSpill();
  failToSpill();
  const std::string said = testing::internal::GetCapturedStderr();
  const std::size_t at = said.find(why);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find(why, at + 1), std::string::npos) << said;
  const LiveShares live(session_->trained().memory());
  const std::string error = outOfMemoryText(session_->budgets(), kMib, "aten::mm", live);
  EXPECT_NE(error.find("\nNothing can be spilled: " + why + ". Make room there"), std::string::npos)
      << error;
}

// 1 MiB beside the base of 17 is less than the largest block: no plan fits. The first step's goes
// for that of the third one. Until a step has followed it nothing is judged: a step without a plan
// may take twice as much, and a refusal would name that. Verification steps may go over the budget
// until then, and may not while it is judged.
TEST_F(SessionSpillingTest, WhereNoPlanFitsTheStepThatFollowsTheBestOneIsJudged) {
  config_.files.spill_dir = "/no/such/folder";
  begin(trace_.base_bytes + kMib);
  failToSpill();
  for (int i = 0; i < 3; ++i) {
    step();
    settle();
  }
  const auto plan = inForce();
  ASSERT_NE(plan, nullptr);
  ASSERT_FALSE(plan->feasible);
  EXPECT_FALSE(session_->verifications().keepsWithinBudget());
  session_->verifications().verified(*plan, true);
  follow(session_->beginStep());
  EXPECT_TRUE(session_->verifications().keepsWithinBudget());
  EXPECT_GE(session_->budgets().verdict().floorBytes(), plan->predicted.peak_bytes);
  EXPECT_FALSE(isRefused());
}

}  // namespace
}  // namespace ebbtide::plugin
