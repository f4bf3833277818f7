// What is said of three runs, from what they left.
#include "prove/verdict.hpp"

#include <gtest/gtest.h>

namespace ebbtide::cli {
namespace {

using What = Difference::What;

constexpr std::int64_t kMiB = 1 << 20;

// One checksum a letter; each update after the first takes so many seconds.
ProofLog log(const std::string& checksums, double seconds = 1,
             std::optional<std::int64_t> rank = 0) {
  ProofLog made;
  made.rank = rank;
  for (const char letter : checksums) {
    const bool first = made.updates.empty();
    made.updates.push_back({first ? std::nullopt : std::optional(seconds), std::string(1, letter)});
  }
  return made;
}

RunReport report(int rank = 0, std::optional<std::int64_t> planned_from = 2) {
  RunReport made;
  made.rank = rank;
  made.budget.bytes = 250 * kMiB;
  made.peaks.plain_bytes = 412 * kMiB;
  made.peaks.mapped_bytes = 249 * kMiB;
  if (planned_from) made.plan.emplace();
  made.steps.first_planned = planned_from;
  return made;
}

Evidence evidence(const RunLogs& plain, const RunLogs& bounded) {
  Evidence made{.plain = plain,
                .again = plain,
                .bounded = bounded,
                .reports = {},
                .asked_updates = updatesOfAll(plain)};
  for (std::size_t i = 0; i < plain.size(); ++i)
    made.reports.push_back(report(static_cast<int>(i)));
  return made;
}

std::string notesOf(const Verdict& verdict) {
  std::string text;
  for (const std::string& note : verdict.notes) text += note + "\n";
  return text;
}

TEST(Verdict, IdenticalInOneLine) {
  const Verdict verdict = judge(evidence({log("abcdefgh", 1)}, {log("abcdefgh", 1.04)}));
  EXPECT_EQ(verdict.line(),
            "identical for 8 steps; 412 → 249 MiB; 1.04x; plain repeats itself: yes");
  EXPECT_EQ(notesOf(verdict), "");
  EXPECT_EQ(verdict.toJson()["verdict"], "identical");
  EXPECT_EQ(verdict.toJson()["plain_repeats"], true);
}

// Two optimizers: 12 updates in 6 steps, or in 7 where the last one had begun. Of the first three
// steps, 0 to 2, which had no plan, are the updates 1 to 6.
TEST(Verdict, TellsStepsFromUpdates) {
  Evidence made = evidence({log("abcdefghijkl")}, {log("abcdefghijkl")});
  made.reports[0].steps.first_planned = 3;
  for (const std::int64_t steps : {6, 7}) {
    made.reports[0].steps.count = steps;
    EXPECT_EQ(judge(made).planned_from, 7);
  }
  for (const std::int64_t steps : {11, 12, 13}) {
    made.reports[0].steps.count = steps;
    EXPECT_EQ(judge(made).planned_from, 4);
  }
}

TEST(Verdict, NamesTheFirstUpdateAndRankThatDiffers) {
  // Rank 0 from update 5 on, rank 1 from update 3 on.
  const Verdict verdict =
      judge(evidence({log("abcdef"), log("abcdef", 1, 1)}, {log("abcdxy"), log("abxyzz", 1, 1)}));
  EXPECT_EQ(verdict.kind, Verdict::Kind::kDiffers);
  EXPECT_TRUE(verdict.line().starts_with("not identical: update 3 on rank 1 differs; 412 → "))
      << verdict.line();
  EXPECT_EQ(verdict.toJson()["first_difference"]["update"], 3);
}

TEST(Verdict, JudgesNothingWherePlainDoesNotRepeatItself) {
  Evidence made = evidence({log("abcdef")}, {log("abcdxx")});
  made.again = {log("abcdey")};
  const Verdict verdict = judge(made);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kPlainDiffers);
  EXPECT_EQ(
      verdict.line(),
      "plain repeats itself: no, update 6 on rank 0 differs; nothing can be judged. Seed what "
      "is random: torch.manual_seed(1)");
}

TEST(Verdict, SaysThatTheProgramEndedBefore) {
  Evidence made = evidence({log("abcdef")}, {log("abcdef")});
  made.asked_updates = 20;
  EXPECT_TRUE(judge(made).line().starts_with(
      "identical for 6 steps (the program ended there; 20 were asked for); "));
}

TEST(Verdict, AnUpdateThatIsMissingIsADifference) {
  const Verdict verdict = judge(evidence({log("abcdef")}, {log("abcd")}));
  EXPECT_TRUE(verdict.line().starts_with(
      "not identical: update 5 on rank 0 is missing in one of the runs; "));
}

TEST(Verdict, SoIsAProcess) {
  const Verdict verdict = judge(evidence({log("abc"), log("abc", 1, 1)}, {log("abc")}));
  EXPECT_TRUE(verdict.line().starts_with(
      "not identical: the runs train in different numbers of processes; "))
      << verdict.line();
}

TEST(Verdict, EqualChecksumsOfNothingProveNothing) {
  RunLogs unread = {log("abc")};
  for (auto& update : unread[0].updates) update.checksum.clear();
  const Verdict verdict = judge(evidence(unread, unread));
  EXPECT_EQ(verdict.line(),
            "nothing can be judged: no parameter can be read at update 1 on rank 0");
}

TEST(Verdict, NeedsAReportOfEachProcess) {
  Evidence made = evidence({log("abc"), log("abc", 1, 1)}, {log("abc"), log("abc", 1, 1)});
  made.reports.pop_back();
  const Verdict verdict = judge(made);
  EXPECT_EQ(verdict.line(),
            "nothing can be judged: 1 of 2 processes left a report under the budget. --keep FOLDER "
            "keeps what they print, which tells why");
  EXPECT_TRUE(verdict.toJson()["plain_repeats"].is_null());
}

TEST(Verdict, TimesAreOfStepsThatFollowThePlan) {
  Evidence made = evidence({log("abcdefgh", 1)}, {log("abcdefgh", 9)});
  for (std::size_t i = 5; i < 8; ++i) made.bounded[0].updates[i].seconds = 1.5;
  // Step 5, from 0, ends with update 6, from 1.
  made.reports[0].steps.first_planned = 5;
  EXPECT_DOUBLE_EQ(judge(made).timeRatio().value(), 1.5);
  EXPECT_EQ(judge(made).planned_from, 6);
}

TEST(Verdict, TimesAreAgainstTheQuickerPlainRun) {
  Evidence made = evidence({log("abcdef", 2)}, {log("abcdef", 1.2)});
  made.again = {log("abcdef", 1)};
  EXPECT_DOUBLE_EQ(judge(made).timeRatio().value(), 1.2);
  EXPECT_EQ(
      notesOf(judge(made)),
      "a step took 2.00 s in one plain run and 1.00 s in the other, so the time is rough: the "
      "machine is busy\n");
}

TEST(Verdict, SaysWhereTooFewStepsFollowedAPlan) {
  Evidence made = evidence({log("abcdefgh", 1)}, {log("abcdefgh", 2)});
  made.reports[0].steps.first_planned = 6;  // two updates
  const Verdict verdict = judge(made);
  EXPECT_FALSE(verdict.planned_from.has_value());
  EXPECT_DOUBLE_EQ(verdict.timeRatio().value(), 2);
  EXPECT_NE(notesOf(verdict).find("Type: --steps 16\n"), std::string::npos) << notesOf(verdict);
}

// 412 MiB of the step and 690 of others are more than the budget of 1,024: values were dropped.
TEST(Verdict, CountsWhatOthersUseOfTheBudget) {
  Evidence made = evidence({log("abcdef")}, {log("abcdef")});
  made.reports = {report(0, std::nullopt)};
  made.reports[0].budget.bytes = 1024 * kMiB;
  made.reports[0].memory.others_bytes = 690 * kMiB;
  EXPECT_FALSE(judge(made).dropped_nothing);
  made.reports[0].budget.bytes = 2048 * kMiB;
  EXPECT_NE(notesOf(judge(made)).find("a step needs 1.08 GiB"), std::string::npos);
}

TEST(Verdict, SaysThatNothingWasDropped) {
  Evidence made = evidence({log("abcdef")}, {log("abcdef")});
  made.reports = {report(0, std::nullopt)};
  made.reports[0].budget.bytes = 1024 * kMiB;
  EXPECT_EQ(judge(made).line(),
            "identical for 6 steps; nothing was dropped; 412 → 249 MiB; plain repeats itself: yes");
  EXPECT_TRUE(judge(made).toJson()["time_ratio"].is_null());
  EXPECT_EQ(judge(made).toJson()["dropped_nothing"], true);
  EXPECT_EQ(notesOf(judge(made)),
            "a step needs 412.0 MiB and the budget is 1.00 GiB: nothing had to be proved. Take a "
            "lower budget\n");
}

// 412 MiB are less than the budget, but plans leave a part of it free, and steps may spill.
TEST(Verdict, AStepThatFitsMayHaveDroppedAllTheSame) {
  Evidence made = evidence({log("abcdef")}, {log("abcdef")});
  made.reports = {report(0, std::nullopt)};
  made.reports[0].budget.bytes = 413 * kMiB;
  EXPECT_TRUE(judge(made).dropped_nothing);
  for (auto one : {&RunReport::Totals::recomputed_ops, &RunReport::Totals::decoded_values,
                   &RunReport::Totals::offloaded_bytes, &RunReport::Totals::spilled_bytes,
                   &RunReport::Totals::dropped_online_bytes}) {
    made.reports[0].totals.*one = 1;
    EXPECT_FALSE(judge(made).dropped_nothing);
    made.reports[0].totals.*one = 0;
  }
  made.reports[0].plan.emplace();
  EXPECT_FALSE(judge(made).dropped_nothing);
}

TEST(Verdict, ADifferenceWithoutADropIsAFault) {
  Evidence made = evidence({log("abcdef")}, {log("abcdxx")});
  made.reports = {report(0, std::nullopt)};
  made.reports[0].budget.bytes = 1024 * kMiB;
  EXPECT_EQ(notesOf(judge(made)),
            "nothing was dropped, so the budget did not do this: please report it\n");
}

TEST(Verdict, SaysWhatReportsTellAgainstIt) {
  Evidence made = evidence({log("abcdef")}, {log("abcdef")});
  made.plain[0].skipped["torch.sparse_coo"] = 1;
  made.reports[0].budget.violations = 3;
  made.reports[0].pass_through = true;
  EXPECT_EQ(notesOf(judge(made)),
            "rank 0 switched to pass-through: it trained as PyTorch alone, without the budget\n"
            "rank 0 went over its budget: 3 allocations\n"
            "not compared: 1 parameter of type torch.sparse_coo, which cannot be read as bytes\n");
}

TEST(Verdict, FiguresAreOfTheRankThatNeedsMost) {
  Evidence made = evidence({log("abcd"), log("abcd", 1, 1)}, {log("abcd"), log("abcd", 1, 1)});
  made.reports[0].peaks.plain_bytes = 700 * kMiB;
  made.reports[1].peaks.mapped_bytes = 260 * kMiB;
  EXPECT_NE(judge(made).line().find("700 → 260 MiB"), std::string::npos);
}

TEST(Verdict, SizesHaveAUnitThatFits) {
  EXPECT_EQ(shownChange(412 * kMiB, 249 * kMiB), "412 → 249 MiB");
  EXPECT_EQ(shownChange(15 * kMiB / 2, 5 * kMiB), "7.5 → 5.0 MiB");
  EXPECT_EQ(shownChange(16 * 1024 * kMiB, 9 * 1024 * kMiB), "16.00 → 9.00 GiB");
}

TEST(LogComparison, WithoutATimeThereIsNoMedian) {
  EXPECT_FALSE(medianSeconds({log("abc", 2)}, 2).has_value());  // two times
  const RunLogs both = {log("abc", 2), log("abc", 2, 1)};
  EXPECT_DOUBLE_EQ(medianSeconds(both, 2).value(), 2);  // four
  EXPECT_FALSE(medianSeconds(both, 4).has_value());
  EXPECT_EQ(updatesOfAll({}), 0);
}

}  // namespace
}  // namespace ebbtide::cli
