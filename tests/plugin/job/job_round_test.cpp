#include "job/job_round.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "../../scheduler/mutations.hpp"
#include "job/job_versions.hpp"

namespace ebbtide::plugin {
namespace {

TEST(JobRound, IsReadAsWritten) {
  const JobRound round{0xfedcba9876543210, 12};
  EXPECT_EQ(round.text(), "fedcba9876543210 12");
  EXPECT_EQ(JobRound::fromText(round.text()), round);
  for (const char* text :
       {"", "fedcba9876543210", "fedcba9876543210 0", "fedcba9876543210 -1", "fedcba9876543210 12 ",
        "fedcba987654321 12", "fedcba987654321g 12", "fedcba9876543210 99999999999"}) {
    EXPECT_EQ(JobRound::fromText(text), std::nullopt) << text;
  }
}

TEST(JobRound, JobsAndRoundsHaveKeysOfTheirOwn) {
  EXPECT_EQ((JobRound{1, 2}.reportKey(3)), "ebbtide/0000000000000001-2/report/3");
  EXPECT_NE((JobRound{1, 2}.outcomeKey()), (JobRound{1, 3}.outcomeKey()));
  EXPECT_NE((JobRound{1, 2}.outcomeKey()), (JobRound{2, 2}.outcomeKey()));
}

TEST(JobProposal, IsReadAsWritten) {
  const JobProposal proposal{{7, 3}, {jobHash("a"), jobHash("b")}, "a plan\nof two lines\n"};
  EXPECT_EQ(proposalFromText(toText(proposal)), proposal);
  EXPECT_THROW(proposalFromText(""), std::invalid_argument);
  EXPECT_THROW(proposalFromText("0000000000000007 3\nno second line"), std::invalid_argument);
  EXPECT_THROW(proposalFromText("round\n\nplan"), std::invalid_argument);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string damaged = scheduler::Mutations(seed).apply(toText(proposal));
    try {
      proposalFromText(damaged);
    } catch (const std::invalid_argument& error) {
      ASSERT_STRNE(error.what(), "") << damaged;
    }
  }
}

TEST(JobWord, HasNumbersOrHasNot) {
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(JobWord::of("begin 12 3").word, "begin");
  EXPECT_EQ(JobWord::of("begin 12 3").numbers(), (Numbers{12, 3}));
  EXPECT_EQ(JobWord::of("begin").numbers(), Numbers{});
  for (const char* text : {"begin x", "begin 1 x", "begin -1", "begin  1", "begin 1.5"})
    EXPECT_EQ(JobWord::of(text).numbers(), std::nullopt) << text;
}

TEST(JobVersions, AreReadByAllVersions) {
  std::string_view later = "ebbtide-job 9 2.0.0 3.1.0+cu140 and more\nsomething else";
  const JobVersions versions = takeVersions(later);
  EXPECT_EQ(versions, (JobVersions{9, "2.0.0", "3.1.0+cu140"}));
  EXPECT_EQ(later, "something else");
  const std::string line = versionsLine({1, "0.1\n0", ""});
  EXPECT_EQ(line, "ebbtide-job 1 0.10 ?\n");
}

TEST(JobVersions, ThatDifferAreNamedWithTheirRanks) {
  const JobVersions one{1, "0.1.0", "2.11.0"}, two{1, "0.1.0", "2.12.0"},
      three{2, "0.1.0", "2.11.0"};
  EXPECT_EQ(versionsApart({one, one}), "");
  EXPECT_EQ(
      versionsApart({one, two, one, one}),
      "ranks 0, 2-3: ebbtide 0.1.0 with torch 2.11.0; rank 1: ebbtide 0.1.0 with torch 2.12.0");
  EXPECT_EQ(versionsApart({one, three}),
            "rank 0: ebbtide 0.1.0 with torch 2.11.0 (protocol 1); rank 1: ebbtide 0.1.0 with "
            "torch 2.11.0 (protocol 2)");
}

}  // namespace
}  // namespace ebbtide::plugin
