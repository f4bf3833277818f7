// Commands that end, fail, hang and leave children.
#include "launch/watched_run.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

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

// The kernel's out-of-memory killer, or CI, ends the caller; what it started would go on.
TEST_F(WatchedRunTest, EndsWithACallerThatIsKilled) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // the command becomes this process's child
  const pid_t caller = ::fork();
  if (caller == 0) {
    run("echo $$; exec sleep 1000");
    ::_exit(0);
  }
  while (written().find('\n') == std::string::npos) ::usleep(1000);
  ::kill(caller, SIGKILL);
  EXPECT_EQ(::waitpid(caller, nullptr, 0), caller);
  const pid_t command = std::stoi(written());
  int status = 0;
  EXPECT_EQ(::waitpid(command, &status, 0), command);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
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

TEST(RunFolder, ShowsTheLastLinesOfAFile) {
  const test::Folder folder;
  const std::string path = folder.path() + "/output.txt";
  std::ofstream(path) << std::string(100000, 'x') << "\none\n\x1b[2Jtwo\nthree";
  EXPECT_EQ(lastLines(path, 2), "?[2Jtwo\nthree\n");
  EXPECT_EQ(lastLines(path + ".none", 2), "");
}

}  // namespace
}  // namespace ebbtide::cli
