#include "config/config.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include "base/variables.hpp"

namespace ebbtide::plugin {
namespace {

// Sets variables for one test and takes them away again.
class ConfigTest : public testing::Test {
 protected:
  void set(const char* name, const char* value) {
    names_.push_back(name);
    ::setenv(name, value, 1);
  }
  void TearDown() override {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  std::string problem() {
    try {
      configFromEnvironment();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  }
  std::vector<std::string> names_;
};

// Its tables of variables have one row for each, and no other.
TEST_F(ConfigTest, VariablesAreThoseOfTheDocumentation) {
  std::ifstream page(std::string(EBBTIDE_DOCS) + "/configuration.md");
  ASSERT_TRUE(page);
  const std::string row = "| `EBBTIDE";
  std::multiset<std::string> listed;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with(row)) continue;
    const std::size_t name = row.find('E');
    listed.insert(line.substr(name, line.find('`', name) - name));
  }
  const std::vector<std::string> known = knownVariables();
  EXPECT_EQ(listed, std::multiset<std::string>(known.begin(), known.end()));
}

// It is no unknown one, which would end the run, and starts nothing by itself, as it did not.
TEST_F(ConfigTest, AVariableOfAnEarlierVersionIsNoError) {
  EXPECT_FALSE(configFromEnvironment().asks_for_audit_cache);
  for (const char* value : {"off", "/no/such", "beside"}) {
    set("EBBTIDE_AUDIT_CACHE", value);
    EXPECT_EQ(unknownVariable(), "");
    EXPECT_EQ(problem(), "");
    EXPECT_TRUE(configFromEnvironment().asks_for_audit_cache);
    EXPECT_FALSE(askedFor());
  }
  set("EBBTIDE_AUDIT_CACHE", "");
  EXPECT_FALSE(configFromEnvironment().asks_for_audit_cache);
  for (const std::string& name : knownVariables()) EXPECT_NE(name, "EBBTIDE_AUDIT_CACHE");
}

// In a folder that was deleted no relative path has a meaning; others are as they were.
TEST_F(ConfigTest, ARelativePathInADeletedFolderNamesItsVariable) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::string made = testing::TempDir() + "/ebbtide-gone-XXXXXX";
  ASSERT_NE(::mkdtemp(made.data()), nullptr);
  std::filesystem::current_path(made);
  std::filesystem::remove(made);
  for (const std::string name :
       {"EBBTIDE_REPORT", "EBBTIDE_TEXTFILE", "EBBTIDE_PERFETTO", "EBBTIDE_SPILL_DIR",
        "EBBTIDE_TRACE_DIR", "EBBTIDE_TOKEN_FILE", "EBBTIDE_SOCKET_DIR"}) {
    set(name.c_str(), "x");
    EXPECT_EQ(problem(), name +
                             "=x: the folder that this process is in was deleted, or cannot be "
                             "read (No such file or directory); write a path that begins with /, "
                             "or go to another folder first");
    set(name.c_str(), "");
  }
  set("EBBTIDE_FIT", ".:3");
  EXPECT_TRUE(problem().starts_with("EBBTIDE_FIT=.:3: ")) << problem();
  set("EBBTIDE_FIT", "");
  set("EBBTIDE_REPORT", "/dev/null");
  EXPECT_EQ(problem(), "");
  std::filesystem::current_path(before);
}

// As EBBTIDE=1 does. Where to write, and what is only read where Ebbtide runs, asks for nothing.
TEST_F(ConfigTest, AFileToWriteAloneMeasures) {
  for (const char* name :
       {"EBBTIDE_REPORT", "EBBTIDE_PERFETTO", "EBBTIDE_TEXTFILE", "EBBTIDE_TRACE_DIR"}) {
    set(name, "x");
    EXPECT_TRUE(askedFor()) << name;
    set("EBBTIDE", "0");
    EXPECT_FALSE(askedFor()) << name;
    ::unsetenv("EBBTIDE");
    ::unsetenv(name);
    EXPECT_FALSE(askedFor()) << name;
  }
  for (const char* name : {"EBBTIDE_SPILL_DIR", "EBBTIDE_PORT", "EBBTIDE_LOG"}) {
    set(name, "1");
    EXPECT_FALSE(askedFor()) << name;
  }
}

// `ebbtide prove` sets it for plain runs too.
TEST_F(ConfigTest, AProofAloneAsksForNothing) {
  set("EBBTIDE_PROOF", "/tmp:20");
  EXPECT_FALSE(askedFor());
  set("EBBTIDE_BUDGET", "1GiB");
  EXPECT_TRUE(askedFor());
}

// `ebbtide fit` sets it beside EBBTIDE=1.
TEST_F(ConfigTest, AnEarlyEndHasAFolderAndSteps) {
  EXPECT_FALSE(configFromEnvironment().end_after);
  set("EBBTIDE_FIT", "/tmp:3");
  ASSERT_TRUE(configFromEnvironment().end_after);
  EXPECT_EQ(configFromEnvironment().end_after->folder, "/tmp");
  EXPECT_EQ(configFromEnvironment().end_after->steps, 3);
  EXPECT_FALSE(askedFor());
  for (const char* wrong : {"/tmp", "/tmp:", "/tmp:0", "/tmp:-1", "/tmp:3x", ":3", "/no/such:3"}) {
    set("EBBTIDE_FIT", wrong);
    EXPECT_EQ(problem(), std::string("EBBTIDE_FIT=") + wrong +
                             ": write FOLDER:N, a folder that exists and steps");
  }
}

TEST_F(ConfigTest, APercentageIsOfTheRanksShare) {
  const auto bytes = [this](const char* budget, const char* ranks) {
    set("EBBTIDE_BUDGET", budget);
    set("LOCAL_WORLD_SIZE", ranks);
    return static_cast<double>(configFromEnvironment().budget.bytes.value());
  };
  // Two ranks on a machine share its memory: 80 % of one share is half of 80 % of the whole.
  EXPECT_NEAR(bytes("80%", "2"), bytes("80%", "1") / 2, 1.0);
}

// Both figures are of one look at what is left: on a busy machine the next look finds another
// amount. A process leaves up to 128 MiB to what it takes later, so two leave up to 128 more than
// one.
TEST_F(ConfigTest, AutoIsOfTheRanksShareToo) {
  constexpr std::int64_t kMib = 1 << 20, kRounding = 8;
  set("EBBTIDE_BUDGET", "auto");
  set("LOCAL_WORLD_SIZE", "2");
  const Config of_two = configFromEnvironment();
  RankPlace alone = of_two;
  alone.local_world_size = 1;
  const std::int64_t two = 2 * of_two.budget.bytes.value();
  const std::int64_t one = of_two.at(alone, "job").config.budget.bytes.value();
  EXPECT_LE(two, one + kRounding);
  EXPECT_GE(two, one - 128 * kMib - kRounding);
  EXPECT_LE(one, usableMemoryBytes() / 100 * 95 + 100);
  EXPECT_GT(two, 0);
}

TEST_F(ConfigTest, ABudgetOfStepsIsMeasuredFirst) {
  for (const char* budget : {"-50%", "60%peak", "default=1GiB,rank0=-50%"}) {
    set("EBBTIDE_BUDGET", budget);
    const Config config = configFromEnvironment();
    EXPECT_EQ(config.budget.bytes, std::nullopt) << budget;
    EXPECT_TRUE(config.budget.form.isOfSteps()) << budget;
  }
}

TEST_F(ConfigTest, ABudgetDependsOnThePlaceByRankByStageAndByAShareOfMemory) {
  for (const auto& [budget, depends] : std::map<const char*, bool>{{"1GiB", false},
                                                                   {"-50%", false},
                                                                   {"60%peak", false},
                                                                   {"80%", true},
                                                                   {"auto", true},
                                                                   {"default=-50%", false},
                                                                   {"rank1=-50%", true},
                                                                   {"stage1=1GiB", true}}) {
    set("EBBTIDE_BUDGET", budget);
    EXPECT_EQ(configFromEnvironment().budgetNeedsPlace(), depends) << budget;
  }
  set("EBBTIDE_BUDGET", "auto");
  Config config = configFromEnvironment();
  config.budget.is_of_gpus = true;  // each rank has its own GPU
  EXPECT_FALSE(config.budgetNeedsPlace());
}

// 4,000 MiB of four ranks are 1,000 each, less the 128 that a process takes later; of 1,000 of four
// 250 each, less a quarter.
TEST_F(ConfigTest, AutoIsARanksPartOfWhatIsFree) {
  constexpr std::int64_t kMib = 1 << 20;
  Config config = configFromEnvironment();
  config.local_world_size = 4;
  config.budget.available_bytes = 4000 * kMib;
  EXPECT_EQ(config.memoryFacts().available_bytes, 872 * kMib);
  config.budget.available_bytes = 1000 * kMib;
  EXPECT_EQ(config.memoryFacts().available_bytes, 250 * kMib - 250 * kMib / 4);
  EXPECT_EQ(config.memoryFacts().memory_bytes, usableMemoryBytes() / 4);
}

TEST_F(ConfigTest, TheHostsMemoryIsSharedByItsRanks) {
  EXPECT_NEAR(static_cast<double>(4 * hostShareBytes(4)), static_cast<double>(hostShareBytes(1)),
              4.0);
  EXPECT_LT(hostShareBytes(1), usableMemoryBytes());
  EXPECT_LE(usableMemoryBytes(), machineMemoryBytes());
  set("SLURM_STEP_NUM_TASKS", "8");
  for (const char* name :
       {"SLURM_STEP_TASKS_PER_NODE", "MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_SIZE",
        "LOCAL_WORLD_SIZE"}) {  // each before the ones to its left
    set(name, std::to_string(names_.size() + 2).c_str());
    EXPECT_EQ(configFromEnvironment().local_world_size, static_cast<int>(names_.size()) + 1);
  }
}

TEST_F(ConfigTest, ABudgetAboveTheMemoryIsNamed) {
  constexpr std::int64_t kGib = 1 << 30;
  EXPECT_EQ(aboveMemory(2 * kGib, {.machine = 2 * kGib}), "");
  EXPECT_EQ(aboveMemory(2 * kGib, {.machine = 4 * kGib, .group_limit = 2 * kGib}), "");
  const std::string group =
      aboveMemory(2 * kGib, {.machine = 4 * kGib, .group_limit = 3 * kGib / 2});
  EXPECT_NE(group.find("budget of 2.00 GiB"), std::string::npos) << group;
  EXPECT_NE(group.find("may use, 1.50 GiB"), std::string::npos) << group;
  // A group whose limit is above the machine's memory limits nothing.
  for (const auto limit : {std::optional<std::int64_t>(), std::optional(2 * kGib)}) {
    const std::string machine = aboveMemory(2 * kGib, {.machine = kGib, .group_limit = limit});
    EXPECT_NE(machine.find("more than the machine's memory, 1.00 GiB"), std::string::npos);
    EXPECT_EQ(machine.find("group"), std::string::npos) << machine;
  }
}

// What others and torch itself have taken is not to be had.
TEST_F(ConfigTest, ABudgetAboveWhatTheRankCanHaveIsNamed) {
  constexpr std::int64_t kGib = 1 << 30;
  const HostBytes host{.machine = 4 * kGib, .group_limit = 2 * kGib, .reachable = kGib};
  EXPECT_EQ(aboveMemory(kGib, host), "");
  for (const std::int64_t bytes : {kGib + 1, 2 * kGib}) {
    const std::string text = aboveMemory(bytes, host);
    EXPECT_NE(text.find("more than this rank can have here now, 1.00 GiB"), std::string::npos);
    EXPECT_NE(text.find("the kernel may end the process"), std::string::npos) << text;
  }
  // A limit says more than the moment does.
  EXPECT_NE(aboveMemory(2 * kGib + 1, host).find("may use, 2.00 GiB"), std::string::npos);
}

TEST_F(ConfigTest, FewBytesAreAskedBackAndNoneIsNoBudget) {
  set("EBBTIDE_BUDGET", "80");
  EXPECT_EQ(problem(), "EBBTIDE_BUDGET=80: these are 80 B; did you mean 80%, 80MiB or 80GiB?");
  set("EBBTIDE_BUDGET", "none");
  EXPECT_EQ(problem(), "");
  EXPECT_EQ(configFromEnvironment().budget.bytes, std::nullopt);
  set("EBBTIDE_BUDGET", "2 gib");
  EXPECT_EQ(configFromEnvironment().budget.bytes, std::int64_t{2} << 30);
}

TEST_F(ConfigTest, BudgetsByRank) {
  set("EBBTIDE_BUDGET", "default=2GiB,rank3=1GiB,rank4-5=3GiB");
  EXPECT_EQ(configFromEnvironment().budget.bytes, std::int64_t{2} << 30);
  set("RANK", "3");
  EXPECT_EQ(configFromEnvironment().budget.bytes, std::int64_t{1} << 30);
  set("RANK", "5");
  EXPECT_EQ(configFromEnvironment().budget.bytes, std::int64_t{3} << 30);
  set("EBBTIDE_BUDGET", "rank3=1GiB");  // of others nothing is asked
  EXPECT_EQ(configFromEnvironment().budget.bytes, std::nullopt);
  ASSERT_TRUE(configFromEnvironment().budget.by_rank);  // but known
  EXPECT_EQ(configFromEnvironment().budget.by_rank->textOf(3), "1GiB");
  set("EBBTIDE_BUDGET", "default=1GiB,rank3=2GB");
  EXPECT_NE(problem().find("rank3=2GB: write 2GiB"), std::string::npos);
}

TEST_F(ConfigTest, BudgetsByStageHoldOnceTheStageIsKnown) {
  set("RANK", "3");
  set("EBBTIDE_BUDGET", "default=1GiB,stage0=2GiB");
  EXPECT_EQ(configFromEnvironment().budget.bytes, std::int64_t{1} << 30);
  ASSERT_TRUE(configFromEnvironment().budget.by_stage);
  EXPECT_EQ(configFromEnvironment().budget.by_stage->textOf(3, {0}), "2GiB");
  set("EBBTIDE_BUDGET", "stage0=2GiB");
  EXPECT_EQ(configFromEnvironment().budget.bytes, std::nullopt);
  EXPECT_TRUE(configFromEnvironment().budget.by_stage);
  set("EBBTIDE_ALLOCATOR", "torch");
  EXPECT_NE(problem().find("cannot hold a budget"), std::string::npos);
  ::unsetenv("EBBTIDE_ALLOCATOR");
  set("EBBTIDE_BUDGET", "default=1GiB,stage0=2GiB,rank3=3GiB");  // it goes before the stage's
  EXPECT_EQ(configFromEnvironment().budget.bytes, std::int64_t{3} << 30);
  EXPECT_FALSE(configFromEnvironment().budget.by_stage);
}

TEST_F(ConfigTest, UnknownVariableNamesTheNearest) {
  set("EBBTIDE_BUGDET", "1GiB");
  EXPECT_EQ(problem(), "unknown variable EBBTIDE_BUGDET; did you mean EBBTIDE_BUDGET?");
  ::unsetenv("EBBTIDE_BUGDET");
  set("EBBTIDE_TOKEN", "x");
  EXPECT_EQ(problem(), "unknown variable EBBTIDE_TOKEN; did you mean EBBTIDE_TOKEN_FILE?");
}

TEST_F(ConfigTest, AnUnknownVariableIsShownOnOneLine) {
  set("EBBTIDE_BUG\nDET", "1GiB");
  EXPECT_EQ(problem(), "unknown variable EBBTIDE_BUG\\nDET; did you mean EBBTIDE_BUDGET?");
  ::unsetenv("EBBTIDE_BUG\nDET");
}

TEST_F(ConfigTest, AnUnknownVariableThatIsLikeNoneListsThemAll) {
  set("EBBTIDE_BOGUS", "1");  // of five letters two are in EBBTIDE_LOG
  const std::string text = problem();
  EXPECT_TRUE(text.starts_with("unknown variable EBBTIDE_BOGUS; there are EBBTIDE EBBTIDE_BUDGET"))
      << text;
}

TEST_F(ConfigTest, ChoicesAreListed) {
  set("EBBTIDE_ON_INFEASIBLE", "abort");
  EXPECT_EQ(problem(), "EBBTIDE_ON_INFEASIBLE=abort is not one of: stop, best-effort");
}

// What is quoted of it is 200 bytes, beside the names of variable and choices.
TEST_F(ConfigTest, EndlessValuesAreNamedAndCut) {
  const std::string endless = "/tmp/" + std::string(6000, 'x') + "\n";
  set("EBBTIDE", "1");
  for (const char* name :
       {"EBBTIDE_LOG", "EBBTIDE_PORT", "EBBTIDE_BUDGET", "EBBTIDE_PLANNER", "EBBTIDE_REPORT",
        "EBBTIDE_PERFETTO", "EBBTIDE_TEXTFILE", "EBBTIDE_SPILL_DIR", "EBBTIDE_TRACE_DIR",
        "EBBTIDE_ON_INFEASIBLE", "EBBTIDE_OFFLOAD", "EBBTIDE_REPLAY_AHEAD", "EBBTIDE_ALLOCATOR"}) {
    ::setenv(name, endless.c_str(), 1);
    const std::string text = problem();
    ::unsetenv(name);
    EXPECT_TRUE(text.starts_with(name)) << name << ": " << text;
    EXPECT_LT(text.size(), 600u) << name;
    EXPECT_EQ(text.find('\n'), std::string::npos) << name;
  }
}

TEST_F(ConfigTest, AFilesNameThatIsTooLongIsNamed) {
  set("EBBTIDE", "1");
  set("EBBTIDE_REPORT", ("/tmp/" + std::string(300, 'x')).c_str());
  EXPECT_EQ(problem(), "EBBTIDE_REPORT: /tmp/" + std::string(195, 'x') +
                           "… cannot be a file: File name too long");
}

TEST_F(ConfigTest, UnknownPlannerIsRefused) {
  set("EBBTIDE_PLANNER", "oracle");
  EXPECT_NE(problem().find("oracle"), std::string::npos);
}

TEST_F(ConfigTest, TorchAllocatorCannotHoldABudget) {
  set("EBBTIDE_BUDGET", "1GiB");
  set("EBBTIDE_ALLOCATOR", "torch");
  EXPECT_FALSE(problem().empty());
}

TEST_F(ConfigTest, TheFolderOfTracesIsMadeWhereItsParentIs) {
  char folder[] = "/tmp/ebbtide-config-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::filesystem::path traces = std::filesystem::path(folder) / "traces";
  set("EBBTIDE", "1");
  set("EBBTIDE_TRACE_DIR", traces.c_str());
  EXPECT_EQ(problem(), "");
  EXPECT_EQ(problem(), "");  // it is there by now
  EXPECT_TRUE(std::filesystem::is_directory(traces));
  set("EBBTIDE_TRACE_DIR", (traces / "of" / "a rank").c_str());
  EXPECT_NE(problem().find("EBBTIDE_TRACE_DIR"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST_F(ConfigTest, FoldersMustBeWritable) {
  set("EBBTIDE_SPILL_DIR", "/nonexistent/folder");
  EXPECT_NE(problem().find("EBBTIDE_SPILL_DIR"), std::string::npos);
}

TEST_F(ConfigTest, RankComesFromMpi) {
  set("OMPI_COMM_WORLD_RANK", "6");
  set("OMPI_COMM_WORLD_LOCAL_RANK", "2");
  set("OMPI_COMM_WORLD_SIZE", "8");
  EXPECT_EQ(configFromEnvironment().rank, 6);
  EXPECT_EQ(configFromEnvironment().local_rank, 2);
  EXPECT_EQ(configFromEnvironment().world_size, 8);
  set("RANK", "1");  // a launcher that runs under mpirun
  EXPECT_EQ(configFromEnvironment().rank, 1);
}

TEST_F(ConfigTest, RankComesFromTheLauncher) {
  set("RANK", "5");
  set("LOCAL_RANK", "1");
  set("WORLD_SIZE", "8");
  set("EBBTIDE_REPORT", "run-{rank}.json");
  const Config config = configFromEnvironment();
  EXPECT_EQ(config.rank, 5);
  EXPECT_EQ(config.local_rank, 1);
  EXPECT_EQ(config.world_size, 8);
  EXPECT_EQ(config.files.report, (std::filesystem::current_path() / "run-5.json").string());
}

TEST_F(ConfigTest, ARankStandsWhereverItIsNamed) {
  set("RANK", "5");
  set("EBBTIDE_REPORT", "r{rank}-{rank}.json");
  EXPECT_TRUE(configFromEnvironment().files.report.ends_with("/r5-5.json"));
}

// The program may change its folder before it writes them.
TEST_F(ConfigTest, PathsAreOfTheFolderAtTheStart) {
  const std::string here = std::filesystem::current_path().string();
  for (const char* name : {"EBBTIDE_SPILL_DIR", "EBBTIDE_TRACE_DIR"}) set(name, ".");
  const Config config = configFromEnvironment();
  EXPECT_TRUE(config.files.spill_dir.starts_with(here)) << config.files.spill_dir;
  EXPECT_TRUE(config.files.trace_dir.starts_with(here)) << config.files.trace_dir;
}

// The ranks of a job that spawns them are told late.
TEST_F(ConfigTest, AFileOfAllRanksIsLocalRankZeros) {
  set("EBBTIDE_REPORT", "run.json");
  const Config alone = configFromEnvironment();
  RankPlace place = alone;
  place.local_world_size = 2;
  const auto [first, problem] = alone.at(place, "job");
  EXPECT_EQ(first.files.report, alone.files.report);
  EXPECT_EQ(problem,
            "EBBTIDE_REPORT=run.json: the 2 ranks of this machine would write one file; put "
            "{rank} into its name. Of this run local rank 0 alone writes it");
  place.local_rank = 1;
  EXPECT_EQ(alone.at(place, "job").config.files.report, "");
}

// Written again and again, while the program may change its folder: so the path is a whole one.
TEST_F(ConfigTest, ATextFileIsEachRanksOwn) {
  set("EBBTIDE_TEXTFILE", "run-{rank}.prom");
  set("RANK", "5");
  set("LOCAL_RANK", "1");
  set("LOCAL_WORLD_SIZE", "2");
  EXPECT_EQ(configFromEnvironment().files.text_file,
            (std::filesystem::current_path() / "run-5.prom").string());
  set("EBBTIDE_TEXTFILE", "run.prom");
  EXPECT_EQ(problem(),
            "EBBTIDE_TEXTFILE=run.prom: the 2 ranks of this machine would write one file; put "
            "{rank} into its name");
  set("LOCAL_WORLD_SIZE", "1");
  EXPECT_TRUE(configFromEnvironment().files.text_file.ends_with("/run.prom"));
  for (const std::string name : {"EBBTIDE_REPORT", "EBBTIDE_PERFETTO"}) {
    set("LOCAL_WORLD_SIZE", "2");
    set("EBBTIDE_TEXTFILE", "run-{rank}.prom");
    set(name.c_str(), "run.json");
    EXPECT_EQ(problem(), name +
                             "=run.json: the 2 ranks of this machine would write one file; put "
                             "{rank} into its name");
    for (const char* fine : {"run-{rank}.json", "/dev/null"}) {
      set(name.c_str(), fine);
      EXPECT_EQ(problem(), "") << fine;
    }
  }
  ::unsetenv("LOCAL_RANK");  // a batch script that is no rank
  set("EBBTIDE_REPORT", "run.json");
  EXPECT_EQ(problem(), "");
  set("LOCAL_WORLD_SIZE", "1");
  set("EBBTIDE_TEXTFILE", "/no/such/folder/run.prom");
  EXPECT_EQ(problem(),
            "EBBTIDE_TEXTFILE: no file can be made in the folder /no/such/folder: No such file or "
            "directory");
}

TEST_F(ConfigTest, BytesReadAsPeopleWriteThem) {
  EXPECT_EQ(formatBytes(512), "512 B");
  EXPECT_EQ(formatBytes(1536), "1.5 KiB");
  EXPECT_EQ(formatBytes(3LL << 29), "1.50 GiB");
}

// As PyTorch's documentation has them: lists in brackets have commas and colons, too.
TEST(IdleAllocatorSettings, ThoseOfTorchsOwnBlocks) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(idleAllocatorSettings(""), Names{});
  EXPECT_EQ(idleAllocatorSettings("per_process_memory_fraction:0.5,pinned_use_background_threads:"
                                  "True,backend:native"),
            Names{});
  EXPECT_EQ(idleAllocatorSettings("expandable_segments:True"), Names{"expandable_segments"});
  EXPECT_EQ(
      idleAllocatorSettings("roundup_power2_divisions:[256:1,512:2,>:8], max_split_size_mb:64"),
      (Names{"roundup_power2_divisions", "max_split_size_mb"}));
  EXPECT_EQ(idleAllocatorSettings("pinned_use_background_threads:expandable_segments"), Names{});
}

}  // namespace
}  // namespace ebbtide::plugin
