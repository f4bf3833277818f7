#include "runtime/run/run_summary.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kMib = 1 << 20;

TEST(RunSummary, OfABudgetSaysWhatItCost) {
  RunSummary run{.steps = 60,
                 .step_seconds = 0.098,
                 .budget_bytes = 250 * kMib,
                 .peak_bytes = 249 * kMib,
                 .plain_peak_bytes = 412 * kMib,
                 .recompute_share = 0.061};
  EXPECT_EQ(
      describe(run),
      "ended after 60 steps of 98 ms: peak 249.0 MiB of the budget's 250.0 MiB, never over it; "
      "plain peak 412.0 MiB; recomputing takes 6.1 % of the time");
  run.violations = 3;
  run.plain_peak_bytes = 0;
  EXPECT_EQ(describe(run),
            "ended after 60 steps of 98 ms: peak 249.0 MiB of the budget's 250.0 MiB, 3 times over "
            "it until it was judged; recomputing takes 6.1 % of the time");
  run.peak_bytes = 251 * kMib;
  EXPECT_EQ(describe(run),
            "ended after 60 steps of 98 ms: peak 251.0 MiB of the budget's 250.0 MiB, 3 times over "
            "it; recomputing takes 6.1 % of the time");
}

// 24 MiB are mapped for the 22 that live: no plan has made the step smaller.
TEST(RunSummary, LeavesOutWhatDidNotHappen) {
  RunSummary run{.steps = 8,
                 .step_seconds = 0.098,
                 .budget_bytes = 250 * kMib,
                 .peak_bytes = 24 * kMib,
                 .plain_peak_bytes = 22 * kMib};
  EXPECT_EQ(describe(run),
            "ended after 8 steps of 98 ms: peak 24.0 MiB of the budget's 250.0 MiB, never over it");
  run.recompute_share = 0.0001;  // a little is told
  EXPECT_TRUE(describe(run).ends_with("; recomputing takes 0.0 % of the time"));
}

// 5 % of 200 MiB are 10.
TEST(RunSummary, OfARankThatDiffersIsALineOfItsOwn) {
  const RankPeak low{100 * kMib, 6}, high{110 * kMib, 6}, higher{110 * kMib + 1, 6};
  EXPECT_FALSE(peaksDiffer(low, high, 200 * kMib));
  EXPECT_TRUE(peaksDiffer(low, higher, 200 * kMib));
  EXPECT_TRUE(peaksDiffer(higher, low, 200 * kMib));
  EXPECT_FALSE(peaksDiffer({0, 6}, low, 200 * kMib));
  EXPECT_FALSE(peaksDiffer(low, {}, 200 * kMib));  // it did not answer, say
}

// 4 of 7 steps are more than half, 3 are not. A rank in its first step has ended none. 50 MiB
// differ by more than 5 % of 200 MiB, 10.
TEST(RunSummary, ALowerPeakOfARankThatIsFarBehindMayStillRise) {
  const RankPeak whole{100 * kMib, 7};
  EXPECT_TRUE(peaksDiffer(whole, {50 * kMib, 4}, 200 * kMib));
  EXPECT_FALSE(peaksDiffer(whole, {50 * kMib, 3}, 200 * kMib));
  EXPECT_FALSE(peaksDiffer({100 * kMib, 1}, {50 * kMib, 0}, 200 * kMib));
  EXPECT_TRUE(peaksDiffer({50 * kMib, 3}, whole, 200 * kMib));  // `whole` has more steps
}

// It does not fall by more steps: 111 - 100 = 11 MiB are more than 10, 109 - 100 = 9 are not.
TEST(RunSummary, AHigherPeakOfARankThatIsFarBehindCounts) {
  const RankPeak whole{100 * kMib, 7};
  EXPECT_TRUE(peaksDiffer(whole, {111 * kMib, 3}, 200 * kMib));
  EXPECT_TRUE(peaksDiffer(whole, {111 * kMib, 0}, 200 * kMib));
  EXPECT_FALSE(peaksDiffer(whole, {109 * kMib, 3}, 200 * kMib));
}

// A plan that fetches all and computes nothing again is not free.
TEST(RunSummary, TellsWhatCopiesCost) {
  RunSummary run{.steps = 20,
                 .step_seconds = 3,
                 .budget_bytes = 45 * kMib,
                 .peak_bytes = 45 * kMib,
                 .plain_peak_bytes = 348 * kMib,
                 .copy_share = 0.069};
  EXPECT_TRUE(describe(run).ends_with(
      "plain peak 348.0 MiB; copies to disk and back take 6.9 % of the time"));
  run.recompute_share = 0.012;
  EXPECT_TRUE(describe(run).ends_with(
      "; recomputing takes 1.2 % of the time; copies to disk and back take 6.9 %"));
  run.spilled_bytes = 1200 * kMib;  // steps without a plan
  EXPECT_TRUE(describe(run).ends_with("take 6.9 %; spilling wrote 1.17 GiB to disk"));
  run.others_bytes = 690 * kMib;  // of a GPU
  EXPECT_TRUE(describe(run).ends_with(
      "; copies to the host and back take 6.9 %; spilling wrote 1.17 GiB to the host"));
}

// 4.01 % are told as 5: a promise is not rounded down.
TEST(RunSummary, WithoutABudgetNamesTwo) {
  RunSummary run{.steps = 1,
                 .step_seconds = 1.25,
                 .peak_bytes = 412 * kMib,
                 .activation_bytes = 300 * kMib,
                 .half = {.budget_bytes = 249 * kMib, .overhead_ratio = 0.0401},
                 .smallest = {.budget_bytes = 109 * kMib, .overhead_ratio = {}, .spills = true}};
  const std::string begin = "ended after 1 step of 1.2 s: peak 412.0 MiB, activations 300.0 MiB";
  EXPECT_EQ(describe(run), begin +
                               ". Half of the activations: EBBTIDE_BUDGET=249MiB (+5 % time); the "
                               "smallest: 109MiB (each step writes to disk)");
  run.smallest = {.budget_bytes = 109 * kMib, .overhead_ratio = {}};
  run.half.overhead_ratio = 0.04;
  EXPECT_EQ(describe(run), begin +
                               ". Half of the activations: EBBTIDE_BUDGET=249MiB (+4 % time); the "
                               "smallest: 109MiB");
  run.half = {};
  EXPECT_EQ(describe(run), begin + ". The smallest budget: EBBTIDE_BUDGET=109MiB");
  run.half = {.budget_bytes = 109 * kMib - 1, .overhead_ratio = 0.04};  // 109 MiB, rounded up
  EXPECT_EQ(describe(run), begin + ". The smallest budget: EBBTIDE_BUDGET=109MiB");
}

// Of a GPU: 3,140 + 690 = 3,830, so the run that went over was judged since.
TEST(RunSummary, TellsWhatOthersUseOfTheBudget) {
  RunSummary run{.steps = 20,
                 .step_seconds = 0.4,
                 .budget_bytes = 3840 * kMib,
                 .peak_bytes = 3140 * kMib,
                 .others_bytes = 690 * kMib,
                 .violations = 1};
  EXPECT_EQ(describe(run),
            "ended after 20 steps of 400 ms: peak 3.07 GiB beside 690.0 MiB in use outside of "
            "PyTorch's allocator, of the budget's 3.75 GiB, 1 time over it until it was judged");
  run.violations = 0;
  run.used_peak_bytes = 3840 * kMib;
  EXPECT_NE(describe(run).find("3.75 GiB, never over it"), std::string::npos) << describe(run);
  run.used_peak_bytes = 3955 * kMib;  // what CUDA loads comes unasked: 3,955 - 3,840
  EXPECT_NE(describe(run).find("3.75 GiB, 115.0 MiB over it for a moment, as others took of"),
            std::string::npos)
      << describe(run);
  run.violations = 1;
  // A budget has both: 3,800 MiB are less than the 3,830 of now.
  run.budget_bytes.reset();
  run.smallest.budget_bytes = 3800 * kMib;
  EXPECT_EQ(describe(run),
            "ended after 20 steps of 400 ms: peak 3.07 GiB beside 690.0 MiB in use outside of "
            "PyTorch's allocator. The smallest budget: EBBTIDE_BUDGET=3800MiB");
  run.smallest.spills = true;  // to pinned memory: no disk is written to
  EXPECT_TRUE(describe(run).ends_with("3800MiB (each step copies to the host)"));
}

// A budget at or above the peak would do nothing.
TEST(RunSummary, NamesNoBudgetThatDoesNothing) {
  const RunSummary run{.steps = 2,
                       .step_seconds = 0.0004,
                       .peak_bytes = 10 * kMib,
                       .half = {.budget_bytes = 10 * kMib, .overhead_ratio = 0.1},
                       .smallest = {.budget_bytes = 12 * kMib, .overhead_ratio = {}}};
  EXPECT_EQ(describe(run), "ended after 2 steps of 0.4 ms: peak 10.0 MiB");
}

TEST(RunSummary, WithoutAPeakSaysTheTimeAlone) {
  EXPECT_EQ(describe({.steps = 2, .step_seconds = 0.5}), "ended after 2 steps of 500 ms");
}

TEST(RunSummary, TimesHaveTwoDigitsOrMore) {
  RunSummary run{.steps = 2, .peak_bytes = kMib};
  const auto said = [&run](double seconds) {
    run.step_seconds = seconds;
    const std::string text = describe(run);
    return text.substr(0, text.find(':'));
  };
  EXPECT_EQ(said(0), "ended after 2 steps");  // not known
  EXPECT_EQ(said(0.00994), "ended after 2 steps of 9.9 ms");
  EXPECT_EQ(said(0.0127), "ended after 2 steps of 13 ms");
  EXPECT_EQ(said(0.9994), "ended after 2 steps of 999 ms");
  EXPECT_EQ(said(0.9996), "ended after 2 steps of 1.0 s");
  EXPECT_EQ(said(12.3), "ended after 2 steps of 12 s");
}

}  // namespace
}  // namespace ebbtide::plugin
