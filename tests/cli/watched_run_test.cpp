// Commands that end, fail, hang and leave children.
#include "launch/watched_run.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
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
  EXPECT_EQ(run("kill -9 $$").text(), "was killed: Killed");
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
  run("(trap '' TERM; echo $(exec sh -c 'echo $PPID'); while :; do sleep 0.05; done) & sleep 0.3");
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
  while (written().find('\n') == std::string::npos) ::usleep(1000);
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

// The shell's parent is the guard. Its children become those of this process.
TEST_F(WatchedRunTest, EndsWithAGuardThatIsKilled) {
  const RunEnd end = run("setsid sleep 1000 & echo $!; sleep 0.2; kill -9 $PPID; exec sleep 1000");
  EXPECT_EQ(end.text(), "was killed: Killed");
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

// That of a process which lives, of another name, a file and a link stay.
TEST(RunFolder, ThoseOfDeadProcessesGoWithTheNextStart) {
  namespace fs = std::filesystem;
  const test::Folder base;
  const fs::path folder = base.path() + "/tmp", elsewhere = base.path() + "/elsewhere";
  for (const char* name : {"ebbtide-prove-dead00", "ebbtide-fit-dead00", "ebbtide-mine"}) {
    fs::create_directories(folder / name / "plain");
    std::ofstream(folder / name / "plain/output.txt") << "begun\n";
  }
  fs::create_directories(elsewhere / "plain");
  fs::create_directory_symlink(elsewhere, folder / "ebbtide-fit-link00");
  std::ofstream(folder / "ebbtide-fit-file00") << "mine";
  const char* const before = ::getenv("TMPDIR");
  const std::string restored = before != nullptr ? before : "";
  ::setenv("TMPDIR", folder.c_str(), 1);
  {
    const RunFolder lives("", "prove");
    const RunFolder next("", "fit");
    EXPECT_TRUE(fs::exists(lives.path()));
    EXPECT_TRUE(fs::exists(next.path()));
    EXPECT_EQ(fs::path(next.path()).parent_path(), folder);
  }
  before != nullptr ? ::setenv("TMPDIR", restored.c_str(), 1) : ::unsetenv("TMPDIR");
  EXPECT_FALSE(fs::exists(folder / "ebbtide-prove-dead00"));
  EXPECT_FALSE(fs::exists(folder / "ebbtide-fit-dead00"));
  EXPECT_TRUE(fs::exists(folder / "ebbtide-mine/plain/output.txt"));
  EXPECT_TRUE(fs::exists(folder / "ebbtide-fit-file00"));
  EXPECT_TRUE(fs::exists(folder / "ebbtide-fit-link00/plain"));
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
