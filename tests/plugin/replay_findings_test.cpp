#include "replay_findings.hpp"

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
  EXPECT_TRUE(findings.rejectedBefore().empty());
}

TEST(ReplayFindings, WhatAnEarlierProcessFoundIsCountedApart) {
  ReplayFindings findings;
  EXPECT_TRUE(findings.reject("aten::sub", 5));
  EXPECT_FALSE(findings.rejectAsBefore("aten::sub", 5));  // this one has found it too
  EXPECT_TRUE(findings.rejectAsBefore("aten::add", 6));
  EXPECT_TRUE(findings.rejectsName("aten::add"));
  EXPECT_EQ(findings.rejectedBefore(), (Counts{{"aten::add", 1}}));
  findings.addEqual("aten::mul");
  findings.addEqualBefore("aten::sin");
  EXPECT_EQ(findings.audited(), (Counts{{"aten::mul", 1}}));
  EXPECT_EQ(findings.auditedBefore(), (Counts{{"aten::sin", 1}}));
}

// What failed may have been short of memory: only what gave other results is left for others.
TEST(ReplayFindings, AFailureIsNoDifference) {
  ReplayFindings findings;
  findings.reject("aten::sub", 5);
  EXPECT_FALSE(findings.differs(5));
  findings.addDiffering(5);
  EXPECT_TRUE(findings.differs(5));
}

TEST(ReplayFindings, APlanIsRejectedForWhatItReplays) {
  ReplayFindings findings;
  findings.reject("aten::sub", 5);
  Plan plan;
  plan.op_signatures = {4, 5};
  plan.replayed = {true, false};
  EXPECT_FALSE(findings.rejects(plan));
  plan.replayed = {true, true};
  EXPECT_TRUE(findings.rejects(plan));
}

}  // namespace
}  // namespace ebbtide::plugin
