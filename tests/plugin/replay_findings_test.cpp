#include "verify/replay_findings.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

using Counts = ReplayFindings::Counts;

TEST(ReplayFindings, AnOpIsRejectedOnceAndCountedEachTime) {
  ReplayFindings findings;
  EXPECT_FALSE(findings.anyRejected());
  EXPECT_TRUE(findings.reject("aten::sub", 5));
  EXPECT_FALSE(findings.reject("aten::sub", 5));
  EXPECT_TRUE(findings.reject("aten::sub", 6));
  EXPECT_TRUE(findings.anyRejected());
  EXPECT_TRUE(findings.rejects(5));
  EXPECT_FALSE(findings.rejects(7));
  EXPECT_TRUE(findings.rejectsName("aten::sub"));
  EXPECT_FALSE(findings.rejectsName("aten::add"));
  EXPECT_EQ(findings.rejected(), (Counts{{"aten::sub", 3}}));
}

TEST(ReplayFindings, EqualReplaysAreCountedByOp) {
  ReplayFindings findings;
  findings.addEqual("aten::mul");
  findings.addEqual("aten::sin");
  findings.addEqual("aten::mul");
  EXPECT_EQ(findings.equal(), (Counts{{"aten::mul", 2}, {"aten::sin", 1}}));
  EXPECT_TRUE(findings.rejected().empty());
}

// What failed may have been short of memory: it says nothing of the op's other calls.
TEST(ReplayFindings, AFailureIsNoDifference) {
  ReplayFindings findings;
  for (const std::uint64_t signature : {5, 6}) findings.reject("aten::linalg_lstsq", signature);
  EXPECT_FALSE(findings.distrusts("aten::linalg_lstsq"));
}

TEST(ReplayFindings, APlanIsRejectedForWhatItReplays) {
  ReplayFindings findings;
  findings.reject("aten::sub", 5);
  Plan plan;
  plan.ops.signatures = {4, 5};
  plan.ops.replayed = {true, false};
  plan.ops.replayed_name = {"aten::mul", ""};
  EXPECT_FALSE(findings.rejects(plan));
  plan.ops.replayed = {true, true};
  plan.ops.replayed_name = {"aten::mul", "aten::sub"};
  EXPECT_TRUE(findings.rejects(plan));
}

TEST(ReplayFindings, APlanIsRejectedForANameThatIsDistrusted) {
  ReplayFindings findings;
  Plan plan;
  plan.ops.signatures = {4};
  plan.ops.replayed = {true};
  plan.ops.replayed_name = {"aten::linalg_lstsq"};
  EXPECT_FALSE(findings.anyDistrusted());
  EXPECT_TRUE(findings.distrust("aten::linalg_lstsq"));
  EXPECT_FALSE(findings.distrust("aten::linalg_lstsq"));
  EXPECT_TRUE(findings.anyDistrusted());
  EXPECT_TRUE(findings.rejects(plan));
}

// One call may differ for what the program wrote unseen, and the same call in each step. An op that
// is known to repeat (a subtraction) is never at fault.
TEST(ReplayFindings, TwoCallsThatDifferEndTheTrustInAnUnknownOp) {
  ReplayFindings findings;
  findings.addDiffering("aten::linalg_lstsq", 5);
  findings.addDiffering("aten::linalg_lstsq", 5);
  EXPECT_FALSE(findings.distrusts("aten::linalg_lstsq"));
  findings.addDiffering("aten::linalg_lstsq", 6);
  EXPECT_TRUE(findings.distrusts("aten::linalg_lstsq"));
  findings.addDiffering("aten::sub", 7);
  findings.addDiffering("aten::sub", 8);
  EXPECT_FALSE(findings.distrusts("aten::sub"));
}

TEST(ReplayFindings, AnOpIsSpokenOfOnce) {
  ReplayFindings findings;
  EXPECT_FALSE(findings.isSaid("aten::sub"));
  EXPECT_TRUE(findings.takeSaying("aten::sub"));
  EXPECT_TRUE(findings.isSaid("aten::sub"));
  EXPECT_FALSE(findings.takeSaying("aten::sub"));
  EXPECT_TRUE(findings.takeSaying("aten::add"));
}

}  // namespace
}  // namespace ebbtide::plugin
