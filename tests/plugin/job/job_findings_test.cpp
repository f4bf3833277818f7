#include "job/job_findings.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/no_budget.hpp"

namespace ebbtide::plugin {
namespace {

std::string problemOf(const std::string& text) {
  try {
    findingsFromText(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(JobFindings, AreReadAsTheyWereWritten) {
  JobFindings findings;
  findings.ranks = {{.stages = {0, 2}},
                    {.stages = {1, 3}, .excess_bytes = 100, .taker = 7, .spare_bytes = 30},
                    {.stages = {4}, .excess_bytes = 1}};
  EXPECT_EQ(findingsFromText(toText(findings)), findings);
  EXPECT_EQ(findingsFromText(toText(JobFindings())), JobFindings());
}

TEST(JobFindings, OfOthersAreChecked) {
  EXPECT_NE(problemOf("[]"), "");
  EXPECT_EQ(problemOf(R"({"stage_counts":[2],"stages":[0],"excess":[0],"taker":[-1],"spare":[0]})"),
            "\"stages\" has fewer than \"stage_counts\" says");
  EXPECT_EQ(problemOf(R"({"stage_counts":[0],"stages":[0],"excess":[0],"taker":[-1],"spare":[0]})"),
            "\"stages\" has more than \"stage_counts\" says");
  EXPECT_NE(problemOf(R"({"stage_counts":[0],"stages":[],"excess":[-1],"taker":[-1],"spare":[0]})"),
            "");
  EXPECT_NE(problemOf(R"({"stage_counts":[0],"stages":[],"excess":[],"taker":[-1],"spare":[0]})"),
            "");
}

TEST(JobFindings, SayWhoCouldTakeALayer) {
  JobFindings::Rank of;
  EXPECT_EQ(takerText(of), "no neighbour has memory to spare");
  of.taker = 3;
  of.spare_bytes = 3 << 20;
  EXPECT_EQ(takerText(of), "rank 3 could take a layer: it leaves at least 3.0 MiB free");
  of.excess_bytes = (3 << 20) + 1;
  EXPECT_EQ(takerText(of), "rank 3 has only 3.0 MiB to spare");
  of.spare_bytes = kNoBudgetBytes - of.spare_bytes;
  EXPECT_EQ(takerText(of), "rank 3 could take a layer: it has no budget");
}

}  // namespace
}  // namespace ebbtide::plugin
