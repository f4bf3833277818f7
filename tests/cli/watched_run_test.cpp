// Commands that end, fail, hang and leave children.
#include "launch/watched_run.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "launch/child_processes.hpp"
#include "launch/environment.hpp"
#include "launch/run_folder.hpp"
#include "prove/proof_environment.hpp"
#include "wrong_server.hpp"

namespace ebbtide::cli {
namespace {

using std::chrono::seconds;

class WatchedRunTest : public ::testing::Test {
 protected:
  RunEnd run(const std::string& script, std::optional<seconds> limit = std::nullopt) {
    return watchedRun({{"sh", "-c", script}, ownEnvironment(), output()}, limit, interrupts_);
  }
  std::string output() const { return folder_.path() + "/output.txt"; }
  std::string written() const {
    std::ifstream file(output());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Of the process whose number the command wrote.
  bool writtenIsGone() const { return ::kill(std::stoi(written()), 0) != 0; }

  Interrupts interrupts_;
  test::Folder folder_;
};

TEST_F(WatchedRunTest, KeepsBothOutputsInTheirOrder) {
  EXPECT_TRUE(run("echo one; echo two >&2; cat").succeeded());  // there is nothing to read
  EXPECT_EQ(written(), "one\ntwo\n");
}

TEST_F(WatchedRunTest, SaysHowItEnded) {
  EXPECT_EQ(run("exit 3").text(), "ended with exit status 3");
  EXPECT_EQ(run("kill -9 $$").text(), "was killed: Killed (memory may have been short)");
  EXPECT_EQ(run("sleep 100", seconds(1)).text(), "did not end within 1 s");
}

TEST_F(WatchedRunTest, SaysWhatCannotBeStarted) {
  try {
    watchedRun({{"/no/such/program"}, {}, output()}, std::nullopt, interrupts_);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "cannot start /no/such/program: No such file or directory");
  }
}

TEST_F(WatchedRunTest, LeavesNoChildOfTheCommand) {
  run("sleep 1000 & echo $!");
  EXPECT_TRUE(writtenIsGone());
}

// As torchrun's ranks, which no signal to a process group reaches.
TEST_F(WatchedRunTest, LeavesNoneInAnotherSession) {
  run("setsid sleep 1000 & echo $!; sleep 0.2");
  EXPECT_TRUE(writtenIsGone());
  EXPECT_TRUE(childProcesses().empty());
}

TEST_F(WatchedRunTest, KillsWhatDoesNotHeedSigterm) {
  run("(trap '' TERM; echo $(exec sh -c 'echo $PPID'); while :; do sleep 0.05; done) & "
      "until test -s '" +
      output() + "'; do sleep 0.02; done");
  EXPECT_TRUE(writtenIsGone());
}

TEST_F(WatchedRunTest, AnInterruptEndsTheCommand) {
  const RunEnd end = run("kill -INT " + std::to_string(::getpid()) + "; sleep 1000");
  EXPECT_EQ(end.text(), "was interrupted");
  EXPECT_EQ(interrupts_.signal(), SIGINT);
}

// The kernel's out-of-memory killer, or CI, ends the caller; what it started would go on: the
// command, a child of the shell in another session, and one that heeds no SIGTERM.
TEST_F(WatchedRunTest, EndsWithACallerThatIsKilled) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // the guard becomes this process's child
  const pid_t caller = ::fork();
  if (caller == 0) {
    run("setsid sleep 1000 & one=$!; (trap '' TERM; exec sleep 1000) & two=$!; sleep 0.2; "
        "echo $$ $one $two; exec sleep 1000");
    ::_exit(0);
  }
  const auto latest = std::chrono::steady_clock::now() + seconds(60);
  while (written().find('\n') == std::string::npos && std::chrono::steady_clock::now() < latest)
    ::usleep(1000);
  ::kill(caller, SIGKILL);
  EXPECT_EQ(::waitpid(caller, nullptr, 0), caller);
  const std::vector<pid_t> left = childProcesses();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(::waitpid(left[0], nullptr, 0), left[0]);  // the guard ends last
  std::istringstream started(written());
  int count = 0;
  for (pid_t process = 0; started >> process; ++count) EXPECT_NE(::kill(process, 0), 0) << process;
  EXPECT_EQ(count, 3);
  EXPECT_TRUE(childProcesses().empty());
}

// As the system's first process would: who waits for the end of an orphan, by its number, sees it.
TEST_F(WatchedRunTest, AnOrphanThatEndsIsGoneWhileTheCommandRuns) {
  const RunEnd end = run(
      "orphan=$(sleep 0.2 >&2 & echo $!); while kill -0 $orphan; do sleep 0.05; done", seconds(60));
  EXPECT_TRUE(end.succeeded()) << end.text();
}

// The shell's parent is the guard. Its children become those of this process.
TEST_F(WatchedRunTest, EndsWithAGuardThatIsKilled) {
  const RunEnd end = run("setsid sleep 1000 & echo $!; sleep 0.2; kill -9 $PPID; exec sleep 1000");
  EXPECT_EQ(end.text(), "was killed: Killed (memory may have been short)");
  EXPECT_TRUE(writtenIsGone());
  EXPECT_TRUE(childProcesses().empty());
}

TEST(ProofEnvironment, PlainRunsHaveNothingOfOurs) {
  const Environment own = {"PATH=/bin", "EBBTIDE=1", "EBBTIDE_BUDGET=1GiB", "EBBTIDE_PORT=9"};
  EXPECT_EQ(plainEnvironment(own, "/f:20"), (Environment{"PATH=/bin", "EBBTIDE_PROOF=/f:20"}));
}

TEST(ProofEnvironment, TheBudgetRunHasAllOfTheUsers) {
  const Environment own = {"EBBTIDE_BUDGET=1GiB", "EBBTIDE_PORT=9", "EBBTIDE_REPORT=mine.json"};
  EXPECT_EQ(budgetEnvironment(own, "2GiB", "/f:20", "/f/r"),
            (Environment{"EBBTIDE_PORT=9", "EBBTIDE_BUDGET=2GiB", "EBBTIDE_REPORT=/f/r",
                         "EBBTIDE_PROOF=/f:20"}));
  EXPECT_EQ(budgetEnvironment(own, "", "/f:20", "/f/r").front(), "EBBTIDE_BUDGET=1GiB");
}

TEST(ProofEnvironment, WithoutABudgetThereIsNothingToProve) {
  EXPECT_THROW(budgetEnvironment({"PATH=/bin"}, "", "", ""), std::invalid_argument);
  EXPECT_THROW(budgetEnvironment({"EBBTIDE_BUDGET="}, "", "", ""), std::invalid_argument);
  EXPECT_THROW(budgetEnvironment({"EBBTIDE=0"}, "1GiB", "", ""), std::invalid_argument);
}

TEST(RunFolder, GoesUnlessItIsKept) {
  std::string path;
  {
    const RunFolder folder("", "verb");
    path = folder.makeFolderOf("plain");
    EXPECT_EQ(::access(path.c_str(), W_OK), 0);
  }
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  const test::Folder parent;
  { path = RunFolder(parent.path() + "/a/b", "verb").makeFolderOf("plain"); }
  EXPECT_EQ(path, parent.path() + "/a/b/plain");
  EXPECT_EQ(::access(path.c_str(), W_OK), 0);
  EXPECT_THROW(RunFolder(parent.path() + "/a", "verb"), std::invalid_argument);  // has files
}

class TemporaryFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(parent_);
    ::setenv("TMPDIR", parent_.c_str(), 1);
  }
  void TearDown() override {
    before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR");
  }

  // What a process leaves that is killed.
  std::filesystem::path left(const char* verb) {
    const std::set<std::filesystem::path> before = all();
    const pid_t owner = ::fork();
    if (owner == 0) {
      const RunFolder folder("", verb);
      std::ofstream(folder.makeFolderOf("plain") + "/output.txt") << "begun\n";
      ::_exit(0);
    }
    ::waitpid(owner, nullptr, 0);
    for (const std::filesystem::path& folder : all())
      if (!before.contains(folder)) return folder;
    return {};
  }
  std::set<std::filesystem::path> all() const {
    std::set<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(parent_)) found.insert(entry);
    return found;
  }

  const test::Folder base_;
  const std::filesystem::path parent_ = base_.path() + "/tmp";
  const std::optional<std::string> before_ =
      ::getenv("TMPDIR") != nullptr ? std::optional<std::string>(::getenv("TMPDIR")) : std::nullopt;
};

TEST_F(TemporaryFolders, OfKilledProcessesGoWithTheNextStart) {
  const std::filesystem::path dead = left("fit");
  ASSERT_FALSE(dead.empty());
  const RunFolder next("", "prove");
  EXPECT_EQ(all(), std::set<std::filesystem::path>{next.path()});
}

TEST_F(TemporaryFolders, OfProcessesThatLiveStay) {
  const RunFolder lives("", "prove");
  const RunFolder next("", "fit");
  EXPECT_EQ(all(), (std::set<std::filesystem::path>{lives.path(), next.path()}));
}

// One that was renamed, one that --keep named, a file, a link, and what another system left.
TEST_F(TemporaryFolders, OfTheUserStay) {
  namespace fs = std::filesystem;
  std::set<fs::path> users;
  for (const char* name : {"saved0", "kept00", "file00", "link00", "other0"})
    users.insert(parent_ / (std::string("ebbtide-fit-") + name));
  fs::rename(left("fit"), parent_ / "ebbtide-fit-saved0");
  { RunFolder(parent_ / "ebbtide-fit-kept00", "fit").makeFolderOf("plain"); }
  std::ofstream(parent_ / "ebbtide-fit-file00") << "mine";
  fs::create_directory(base_.path() + "/elsewhere");
  fs::create_directory_symlink(base_.path() + "/elsewhere", parent_ / "ebbtide-fit-link00");
  fs::create_directory(parent_ / "ebbtide-fit-other0");
  std::ofstream(parent_ / "ebbtide-fit-other0/.ebbtide-temporary") << "1-2-3 ebbtide-fit-other0\n";
  {
    const RunFolder next("", "prove");
    EXPECT_EQ(all().size(), users.size() + 1);
  }
  EXPECT_EQ(all(), users);
}

TEST(RunFolder, ShowsTheLastLinesOfAFile) {
  const test::Folder folder;
  const std::string path = folder.path() + "/output.txt";
  std::ofstream(path) << std::string(100000, 'x') << "\none\n\x1b[2Jtwo\nthree";
  EXPECT_EQ(lastLines(path, 2), "?[2Jtwo\nthree\n");
  EXPECT_EQ(lastLines(path + ".none", 2), "");
}

}  // namespace
}  // namespace ebbtide::cli
