#include "runtime/run/exit_signal.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace ebbtide::plugin {
namespace {

// A process that installs it, is sent the signal, and what it wrote; it does nothing else.
class ExitSignalTest : public ::testing::Test {
 protected:
  // On a busy machine a thread may take longer than the default of 5 s.
  static constexpr auto kPatience = std::chrono::minutes(10);

  ExitSignalTest() { EXPECT_EQ(::pipe(pipe_), 0); }
  ~ExitSignalTest() override {
    ::close(pipe_[0]);
    if (pipe_[1] >= 0) ::close(pipe_[1]);
  }

  void say(char letter) const { EXPECT_EQ(::write(pipe_[1], &letter, 1), 1); }

  // `child` says 'r' once the signal may come.
  int statusOf(const std::function<void()>& child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      child();
      for (;;) ::pause();
    }
    ::close(pipe_[1]);
    pipe_[1] = -1;
    EXPECT_EQ(read(), "r");
    ::kill(pid, SIGTERM);
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return status;
  }
  std::string read() const {
    char letter = 0;
    return ::read(pipe_[0], &letter, 1) == 1 ? std::string(1, letter) : "";
  }

  int pipe_[2] = {-1, -1};
};

TEST_F(ExitSignalTest, LeavesAndEndsByTheSignal) {
  const int status = statusOf([this] {
    if (ExitSignal::install([this] { say('l'); }, kPatience) && !ExitSignal::install([] {}))
      say('r');
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(read(), "l");
  EXPECT_EQ(read(), "");  // once
}

TEST_F(ExitSignalTest, WhatDoesNotReturnEndsTheProcessAllTheSame) {
  const int status = statusOf([this] {
    ExitSignal::install([] {
      for (;;) ::pause();
    });
    say('r');
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
}

// As a program does that handles the signal for a while, to write a checkpoint.
TEST_F(ExitSignalTest, TakesBackWhatAProgramHasGivenUp) {
  const int status = statusOf([this] {
    ExitSignal::takeBack();  // nothing to take yet: the process would not leave
    ExitSignal::install([this] { say('l'); }, kPatience);
    ::signal(SIGTERM, SIG_DFL);
    ExitSignal::takeBack();
    say('r');
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(read(), "l");
}

TEST_F(ExitSignalTest, DoesNotTakeBackWhatAProgramHandles) {
  const int status = statusOf([this] {
    ExitSignal::install([] {});
    ::signal(
        SIGTERM, +[](int) { ::_exit(7); });
    ExitSignal::takeBack();
    say('r');
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST_F(ExitSignalTest, WhatSomebodyHandlesOrIgnoresIsTheirs) {
  const int status = statusOf([this] {
    for (const auto handler : {SIG_IGN, +[](int) {}}) {
      ::signal(SIGTERM, handler);
      if (ExitSignal::install([] {})) ::_exit(1);
    }
    ::signal(
        SIGTERM, +[](int) { ::_exit(7); });
    say('r');
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

// It has no thread that could leave anything.
TEST_F(ExitSignalTest, AForkedChildEndsAtOnce) {
  const int status = statusOf([this] {
    ExitSignal::install([this] { say('l'); });
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (;;) ::pause();
    }
    ::kill(pid, SIGTERM);
    int of_child = 0;
    ::waitpid(pid, &of_child, 0);
    ::signal(SIGTERM, SIG_DFL);
    if (WIFSIGNALED(of_child) && WTERMSIG(of_child) == SIGTERM) say('r');
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(read(), "");  // nothing was left
}

}  // namespace
}  // namespace ebbtide::plugin
