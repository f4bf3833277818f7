// What `ebbtide fit` makes of reports and recorded steps.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/spilling_floor.hpp"
#include "fit/budget_costs.hpp"
#include "fit/fit_result.hpp"
#include "fit/fit_runs.hpp"
#include "fit/fit_verdict.hpp"
#include "fit/recorded_run.hpp"

namespace ebbtide::cli {
namespace {

using scheduler::RankBudgets;

constexpr std::int64_t kMiB = 1 << 20;

// A tenth of a budget, at least 1 MiB, is headroom.
constexpr scheduler::BudgetMargins kMargins = {
    .headroom_share = 0.1, .least_headroom_bytes = kMiB, .unplanned_bytes = 4 * kMiB};

RunReport report(int rank, std::int64_t needed, std::int64_t smallest) {
  RunReport one;
  one.path = "report-" + std::to_string(rank) + ".json";
  one.rank = rank;
  one.steps.count = 3;
  one.budget.margins = kMargins;
  one.budget.needed_bytes = needed * kMiB;
  one.budget.smallest_feasible_bytes = smallest * kMiB;
  one.peaks.plain_bytes = 400 * kMiB;
  one.budget.whole_bytes = 1000 * kMiB;
  return one;
}

TEST(FitVerdict, ComparesABudgetWithWhatStepsNeed) {
  // Of 90 MiB 4 lie in no block: what is less than 86 by up to 3 %, 83.42 MiB, is tried.
  const RunReport one = report(0, 90, 110);
  EXPECT_EQ(judgeFit(one, 110 * kMiB), FitVerdict::kFits);
  EXPECT_EQ(judgeFit(one, 110 * kMiB - 1), FitVerdict::kUnsure);
  EXPECT_EQ(judgeFit(one, 84 * kMiB), FitVerdict::kUnsure);
  EXPECT_EQ(judgeFit(one, 83 * kMiB), FitVerdict::kDoesNotFit);
  EXPECT_THROW(judgeFit(report(0, 0, 0), kMiB), std::invalid_argument);
  RunReport of_two = one;  // by up to 15 %: 86 * 0.85 = 73.1
  of_two.world_size = 2;
  EXPECT_EQ(judgeFit(of_two, 74 * kMiB), FitVerdict::kUnsure);
  EXPECT_EQ(judgeFit(of_two, 73 * kMiB), FitVerdict::kDoesNotFit);
}

TEST(FitVerdict, IsOfAllRanksThatHaveABudget) {
  const std::vector<RunReport> reports = {report(0, 90, 110), report(1, 180, 220)};
  const auto verdict = [&](const std::string& text) {
    return judgeFit(reports, RankBudgets::parse("B", text), "B");
  };
  EXPECT_EQ(verdict("220MiB"), FitVerdict::kFits);
  EXPECT_EQ(verdict("22%"), FitVerdict::kFits);  // of 1000 MiB
  EXPECT_EQ(verdict("210MiB"), FitVerdict::kUnsure);
  EXPECT_EQ(verdict("110MiB"), FitVerdict::kDoesNotFit);
  EXPECT_EQ(verdict("rank0=110MiB"), FitVerdict::kFits);  // rank 1 has none
  EXPECT_EQ(verdict("default=210MiB,rank0=50MiB"), FitVerdict::kDoesNotFit);
  EXPECT_EQ(verdict("default=100MiB,rank1=220MiB"), FitVerdict::kUnsure);
}

// Rank 1 needs most and has enough; rank 0 has not.
TEST(FitVerdict, IsToldOfTheRankThatDecides) {
  const std::vector<RunReport> reports = {report(0, 90, 110), report(1, 180, 220)};
  const RankBudgets budgets = RankBudgets::parse("B", "rank0=50MiB,rank1=300MiB");
  EXPECT_EQ(judgeFit(reports, budgets, "B"), FitVerdict::kDoesNotFit);
  const RunReport* const decides = rankOf(FitVerdict::kDoesNotFit, reports, budgets, "B");
  ASSERT_NE(decides, nullptr);
  EXPECT_EQ(decides->rank, 0);
  EXPECT_EQ(rankOf(FitVerdict::kUnsure, reports, budgets, "B"), nullptr);
}

TEST(FitVerdict, IsOfNobodyWhereNoRankHasABudget) {
  const std::vector<RunReport> reports = {report(0, 90, 110), report(1, 180, 220)};
  EXPECT_FALSE(boundsNobody(reports, RankBudgets::parse("B", "1GiB")));
  EXPECT_FALSE(boundsNobody(reports, RankBudgets::parse("B", "rank1=1GiB,rank7=2GiB")));
  EXPECT_TRUE(boundsNobody(reports, RankBudgets::parse("B", "rank2-7=1GiB")));
  EXPECT_TRUE(boundsNobody(reports, RankBudgets::parse("B", "default=1GiB,rank0-1=none")));
}

// A tenth of a budget is headroom: 90 MiB need 100, 180 MiB 200.
TEST(FitVerdict, ASmallerBudgetIsTriedWhereWhatIsNamedIsMuchMore) {
  const std::vector<RunReport> reports = {report(0, 90, 110), report(1, 180, 220)};
  EXPECT_EQ(smallerBudgetToTry(reports, 220 * kMiB), 200 * kMiB);
  EXPECT_EQ(smallerBudgetToTry(reports, 207 * kMiB), 200 * kMiB);    // 3 % less: 200.8
  EXPECT_EQ(smallerBudgetToTry(reports, 206 * kMiB), std::nullopt);  // 199.8
  EXPECT_EQ(smallerBudgetToTry({report(0, 0, 0)}, 206 * kMiB), std::nullopt);
  // In whole MiB, as the run's variable has it: what is told as held was tried. 100 KiB more need
  // 200.1 MiB.
  std::vector<RunReport> odd = reports;
  *odd[1].budget.needed_bytes += 100 << 10;
  EXPECT_EQ(smallerBudgetToTry(odd, 220 * kMiB), 201 * kMiB);
  EXPECT_EQ(smallerBudgetToTry(odd, 207 * kMiB), std::nullopt);  // 201 is more than 200.8
}

// A crash or a time limit is no word on the budget; a refusal, and an allocation over it, are.
TEST(RecordedRun, FailsForOtherReasonsUnlessItTellsOfMemory) {
  const std::string folder = testing::TempDir() + "ebbtide-fit-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  RecordedRun run;
  run.folder = folder;
  run.asked_steps = 8;
  run.reports = {report(0, 90, 110)};  // of 3 steps
  run.reports[0].budget.violations = 0;
  const auto fails = [&](const std::string& output) {
    std::ofstream(run.output()) << output;
    return run.failedForOtherReasons();
  };
  run.end = {.why = RunEnd::Why::kStatus, .number = 1};
  EXPECT_TRUE(fails("step 2\nRuntimeError: deliberate\n"));
  EXPECT_FALSE(fails("ebbtide: out of memory. DefaultCPUAllocator: can't allocate\nmore"));
  EXPECT_FALSE(fails("it is too small for this program, which needs 3 MiB.\n"));
  EXPECT_FALSE(fails("MemoryError: std::bad_alloc\n"));
  run.end = {.why = RunEnd::Why::kLate, .number = 60};
  EXPECT_TRUE(fails("step 2\n"));
  run.reports[0].budget.violations = 1;
  EXPECT_FALSE(fails("step 2\n"));
  run.reports[0].budget.violations = 0;
  run.end = {};
  EXPECT_FALSE(fails("step 2\n"));  // the program was shorter
  std::filesystem::remove_all(folder);
}

TEST(FitVerdict, NeedsTheDevicesMemoryForPercent) {
  RunReport one = report(0, 90, 110);
  one.budget.whole_bytes.reset();
  const RankBudgets budgets = RankBudgets::parse("B", "80%");
  EXPECT_THROW(budgetOf(one, budgets, "B"), std::invalid_argument);
}

TEST(FitVerdict, TakesBudgetsOfWhatAStepTakes) {
  RunReport one = report(0, 90, 110);
  one.peaks.plain_bytes = 400 * kMiB;
  one.memory.activation_bytes = 200 * kMiB;
  const auto bytes = [&one](const std::string& text) {
    return budgetOf(one, RankBudgets::parse("B", text), "B");
  };
  EXPECT_EQ(bytes("-50%"), 300 * kMiB);  // 400 - 200 / 2
  EXPECT_EQ(bytes("60%peak"), 240 * kMiB);
  EXPECT_EQ(bytes("none"), std::nullopt);
  EXPECT_THROW(bytes("auto"), std::invalid_argument);  // of a report without the figure
  one.budget.available_bytes = 700 * kMiB;
  EXPECT_EQ(bytes("auto"), 700 * kMiB);
}

// 99 % of 102,400 and of 204,800 KiB; half of a rank's 400 MiB is 200.
TEST(FitVerdict, TriesALittleLess) {
  std::vector<RunReport> ranks = {report(0, 90, 110), report(1, 90, 110)};
  for (RunReport& one : ranks) one.budget.whole_bytes = 400 * kMiB;
  const auto tried = [&ranks](const std::string& text) {
    return budgetToTry(ranks, RankBudgets::parse("B", text), "B", text);
  };
  EXPECT_EQ(tried("100MiB"), "101376KiB");
  EXPECT_EQ(tried("50%"), "202752KiB");
  EXPECT_EQ(tried("rank1=100MiB"), "rank1=101376KiB");
  EXPECT_EQ(tried("default=50%,rank1=100MiB"), "rank0=202752KiB,rank1=101376KiB");
  EXPECT_EQ(tried("default=50%,rank1=50%"), "202752KiB");
  EXPECT_EQ(tried("1MiB"), "1013KiB");  // 1,024 less 10.24
  EXPECT_EQ(tried("-50%"), "-50%");
}

TEST(FitTable, HasBudgetsFromTheSmallestToTheOneThatKeepsEverything) {
  // 90 MiB and 4 unplanned ones: 94 of 0.9 · 104.44 MiB.
  const std::int64_t keeping = keepingBudget(90 * kMiB, kMargins);
  EXPECT_NEAR(static_cast<double>(keeping) / kMiB, 94 / 0.9, 1e-5);
  using Budgets = std::vector<std::int64_t>;
  // 55 MiB in 5 steps of 11.
  EXPECT_EQ(tableBudgets(50 * kMiB, keeping, 6),
            (Budgets{50 * kMiB, 61 * kMiB, 72 * kMiB, 83 * kMiB, 94 * kMiB, 105 * kMiB}));
  EXPECT_EQ(tableBudgets(104 * kMiB - 5, keeping, 6), (Budgets{104 * kMiB, 105 * kMiB}));
  EXPECT_EQ(tableBudgets(200 * kMiB, keeping, 6), (Budgets{200 * kMiB}));
}

// A recorded step of the scheduler's tests.
RecordedStep recordedStep() {
  const std::string path = std::string(SCHEDULER_DATA) + "/cnn_step.json";
  std::ifstream file(path);
  RecordedStep step{scheduler::traceFromJson({std::istreambuf_iterator<char>(file), {}}), {}, 0};
  step.graph = scheduler::buildGraph(step.trace);
  step.plain_peak_bytes =
      scheduler::simulate(step.graph.graph, scheduler::keepEverything(step.graph.graph)).peak_bytes;
  return step;
}

// What a first step needs counts what it leaves to later ones from its start on. Whether a budget
// below that will do is for a run within it to tell, where later steps need less.
TEST(FitVerdict, IsOfTheStepsAfterTheFirstWhereTheyNeedLess) {
  const RecordedStep step = recordedStep();
  const std::int64_t floor =
      scheduler::spillingFloor(scheduler::buildGraph(step.trace, {.unread_may_go = true}).graph)
          .bytes;
  const std::string folder = testing::TempDir() + "ebbtide-fit-" + std::to_string(::getpid());
  RecordedRun run;
  run.folder = folder;
  std::filesystem::create_directories(RecordedRun::tracesIn(folder));
  const auto record = [&](const std::string& name) {
    std::ofstream(RecordedRun::tracesIn(folder) + "/" + name) << scheduler::toJson(step.trace);
  };
  run.reports = {report(0, 0, 0)};
  const std::int64_t later = floor + 4 * kMiB;  // that lie in no block
  run.reports[0].budget.needed_bytes = 2 * later;
  run.reports[0].budget.smallest_feasible_bytes = 3 * later;
  record("trace-0-1.json");
  record("trace-1-2.json");                                               // of another rank
  EXPECT_EQ(reportsOfLaterSteps(run)[0].budget.needed_bytes, 2 * later);  // no other step is known
  record("trace-0-2.json");
  const RunReport one = reportsOfLaterSteps(run)[0];
  EXPECT_EQ(one.budget.needed_bytes, later);
  EXPECT_EQ(judgeFit(run.reports[0], later), FitVerdict::kDoesNotFit);
  EXPECT_EQ(judgeFit(one, later), FitVerdict::kUnsure);
  EXPECT_EQ(judgeFit(one, floor), FitVerdict::kUnsure);  // blocks are never in what lies in none
  EXPECT_EQ(judgeFit(one, floor / 2), FitVerdict::kDoesNotFit);
  // Never more than all steps need together.
  run.reports[0].budget.needed_bytes = later - 1;
  EXPECT_EQ(reportsOfLaterSteps(run)[0].budget.needed_bytes, later - 1);
  std::filesystem::remove_all(folder);
}

TEST(FitTable, CostsFallAsBudgetsRise) {
  const RecordedStep step = recordedStep();
  const scheduler::BudgetMargins margins = {
      .headroom_share = 0.005, .least_headroom_bytes = kMiB, .unplanned_bytes = kMiB};
  const std::int64_t keeping = keepingBudget(step.plain_peak_bytes, margins);
  const std::int64_t least = scheduler::peakLowerBound(step.graph.graph);
  // A cap below the lower bound has no plan; then one that has to give something up; all kept.
  const std::int64_t between =
      margins.budgetWithRoomFor(kMiB + step.plain_peak_bytes - (step.plain_peak_bytes - least) / 4);
  const std::int64_t too_small = margins.budgetWithRoomFor(kMiB + least / 2);
  // This planner ends by its work, however slow the machine is.
  const auto costs =
      costsOf(step, margins, {keeping, between, too_small, keeping},
              {.planner = "greedy", .planning_time = std::chrono::hours(24), .threads = 2});
  ASSERT_EQ(costs.size(), 3U);
  EXPECT_EQ(costs[0].budget_bytes, too_small);
  EXPECT_EQ(costs[0].overhead_ratio, std::nullopt);
  ASSERT_TRUE(costs[1].overhead_ratio);
  EXPECT_GT(*costs[1].overhead_ratio, 0);
  EXPECT_EQ(costs[2].overhead_ratio, 0);
}

TEST(FitRuns, HaveTheUsersVariablesAndTheirOwn) {
  const Environment own = {"PATH=/bin", "EBBTIDE_BUDGET=1GiB", "EBBTIDE_REPORT=mine",
                           "EBBTIDE_ON_INFEASIBLE=best-effort", "EBBTIDE_PLANNER=greedy"};
  const Environment measured = fitEnvironment(own, "/f", "", 3);
  EXPECT_EQ(valueOf(measured, "EBBTIDE_BUDGET"), "");
  EXPECT_EQ(valueOf(measured, "EBBTIDE"), "1");
  EXPECT_EQ(valueOf(measured, "EBBTIDE_FIT"), "/f:3");
  EXPECT_EQ(valueOf(measured, "EBBTIDE_REPORT"), "/f/reports/report-{rank}.json");
  EXPECT_EQ(valueOf(measured, "EBBTIDE_TRACE_DIR"), "/f/traces");
  EXPECT_EQ(valueOf(measured, "EBBTIDE_PLANNER"), "greedy");
  EXPECT_EQ(valueOf(measured, "PATH"), "/bin");
  const Environment within = fitEnvironment(own, "/f", "2GiB", 8);
  EXPECT_EQ(valueOf(within, "EBBTIDE_BUDGET"), "2GiB");
  EXPECT_EQ(valueOf(within, "EBBTIDE_ON_INFEASIBLE"), "");  // a refusal is the answer
}

FitResult result(std::optional<bool> fits) {
  FitResult one;
  one.report = report(1, 90, 110);
  one.report.memory.activation_bytes = 300 * kMiB;
  one.report.steps.median_seconds = 0.5;
  one.ranks = 2;
  if (fits) one.budget = FitBudget{"20%", 200 * kMiB};
  one.fits = fits;
  if (fits.value_or(false)) one.at_budget = BudgetCost{200 * kMiB, 0.034};
  one.table = {{110 * kMiB, std::nullopt}, {200 * kMiB, 0.034}, {410 * kMiB, 0.0}};
  return one;
}

TEST(FitResult, BeginsWithTheVerdict) {
  EXPECT_EQ(result(true).text(),
            "fits 20% (200.0 MiB): +3.4% time\n"
            "smallest budget: EBBTIDE_BUDGET=110MiB (each step writes to disk)\n"
            "without a budget: peak 400.0 MiB, activations 300.0 MiB, 500.0 ms a step (rank 1, "
            "which needs most of 2 ranks)\n"
            "\n"
            "budget  predicted\n"
            "110MiB  each step writes to disk\n"
            "200MiB  +3.4% time\n"
            "410MiB  no more time\n");
  EXPECT_TRUE(result(false).text().starts_with(
      "does not fit 20% (200.0 MiB): the smallest budget is 110MiB\nsmallest budget: "));
  EXPECT_TRUE(result(std::nullopt).text().starts_with("smallest budget: EBBTIDE_BUDGET=110MiB"));
}

TEST(FitResult, OfAGpuTellsWhatOthersUse) {
  FitResult of_gpu = result(std::nullopt);
  of_gpu.report.memory.others_bytes = 690 * kMiB;
  const std::string text = of_gpu.text();
  EXPECT_TRUE(text.starts_with(
      "smallest budget: EBBTIDE_BUDGET=110MiB (each step copies to the host)\nwithout a budget: "
      "peak "
      "400.0 MiB beside 690.0 MiB in use outside of PyTorch's allocator, activations 300.0 MiB"))
      << text;
  EXPECT_EQ(text.find("disk"), std::string::npos);
}

// 105 MiB are less than the 110 that were computed, and a run has held them.
TEST(FitResult, ABudgetThatARunHeldIsTheSmallest) {
  FitResult held = result(true);
  held.budget = FitBudget{"105MiB", 105 * kMiB};
  held.at_budget = BudgetCost{105 * kMiB, std::nullopt};
  held.table.insert(held.table.begin(), *held.at_budget);
  EXPECT_TRUE(
      held.text().starts_with("fits 105MiB: each step writes to disk\nsmallest budget: "
                              "EBBTIDE_BUDGET=105MiB (each step writes to disk)\n"))
      << held.text();
  EXPECT_EQ(held.toJson()["smallest_budget_bytes"], 105 * kMiB);
}

// 26 MiB are less than the 35 that were computed and than the 30 that do not fit.
TEST(FitResult, SoIsASmallerOneThatARunHeld) {
  FitResult other = result(false);
  other.report.budget.smallest_feasible_bytes = 35 * kMiB;
  other.budget = FitBudget{"22MiB", 22 * kMiB};
  other.held_bytes = 26 * kMiB;
  EXPECT_TRUE(other.text().starts_with("does not fit 22MiB: the smallest budget is 26MiB\n"))
      << other.text();
  other.fits = true;
  EXPECT_EQ(other.smallestBudgetBytes(), 22 * kMiB);
}

TEST(FitResult, TellsTheBytesOfAWord) {
  FitResult one = result(true);
  const auto said = [&one](const std::string& text) {
    one.budget = FitBudget{text, 200 * kMiB};
    const std::string all = one.text();
    return all.substr(0, all.find(':'));
  };
  EXPECT_EQ(said("auto"), "fits auto (about 200.0 MiB)");
  EXPECT_EQ(said("60 % Peak"), "fits 60 % Peak (200.0 MiB)");
  EXPECT_EQ(said("rank1=200MiB"), "fits rank1=200MiB (200.0 MiB)");
  EXPECT_EQ(said("0.2 gi"), "fits 0.2 gi");
  EXPECT_EQ(said("209715200"), "fits 209715200");
}

// A budget of 200 MiB where torch and others leave 150.
TEST(FitResult, TellsOfABudgetThatTheRankCannotHave) {
  FitResult one = result(true);
  one.report.budget.available_bytes = 150 * kMiB;
  EXPECT_TRUE(one.text().starts_with(
      "fits 20% (200.0 MiB): +3.4% time\n"
      "but a rank can have 150.0 MiB here now: the kernel may end a process that takes more. To "
      "take what there is: EBBTIDE_BUDGET=auto\n"))
      << one.text();
  EXPECT_EQ(one.toJson()["available_bytes"], 150 * kMiB);
  for (const std::int64_t there : {std::int64_t{0}, 200 * kMiB}) {  // 0: not known
    one.report.budget.available_bytes = there;
    EXPECT_EQ(one.text().find("but a rank"), std::string::npos) << one.text();
  }
  EXPECT_EQ(one.toJson()["available_bytes"], 200 * kMiB);
  one.report.budget.available_bytes = 150 * kMiB;
  one.budget = FitBudget{"rank1=200MiB", 200 * kMiB};  // others take less than their part
  EXPECT_EQ(one.text().find("but a rank"), std::string::npos) << one.text();
}

TEST(FitResult, IsAlsoADocument) {
  const auto tree = result(true).toJson();
  EXPECT_EQ(tree["fits"], true);
  EXPECT_EQ(tree["budget_bytes"], 200 * kMiB);
  EXPECT_EQ(tree["overhead_ratio"], 0.034);
  EXPECT_EQ(tree["smallest_budget_bytes"], 110 * kMiB);
  EXPECT_EQ(tree["rank"], 1);
  EXPECT_EQ(tree["table"][0]["overhead_ratio"], nullptr);
  EXPECT_EQ(result(std::nullopt).toJson()["fits"], nullptr);
}

TEST(FitResult, OfValuesNamesTheLargest) {
  FitOfValues all;
  all.budget = FitBudget{"200MiB", 200 * kMiB};
  all.largest = 8;
  FitResult failed;
  failed.value = 32;
  failed.problem = "the measured 32 run was killed: Killed";
  all.results = {failed, result(false), result(true)};
  all.results[1].value = 16;
  all.results[2].value = 8;
  EXPECT_EQ(all.text(),
            "the largest that fits 200MiB: 8\n"
            "\n"
            "value  smallest budget  peak without\n"
            "    8           110MiB     400.0 MiB  fits, +3.4% time\n"
            "   16           110MiB     400.0 MiB  does not fit\n"
            "   32                -             -  the measured 32 run was killed: Killed\n");
  EXPECT_EQ(all.toJson()["largest"], 8);
  EXPECT_EQ(all.toJson()["values"][0]["value"], 32);
  all.largest.reset();
  EXPECT_TRUE(all.text().starts_with("none of the values fits 200MiB\n"));
}

}  // namespace
}  // namespace ebbtide::cli
