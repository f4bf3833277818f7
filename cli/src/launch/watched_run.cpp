#include "launch/watched_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "launch/child_processes.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause(20);
constexpr milliseconds kForTheFirst(10000);  // a launcher ends its ranks

std::vector<char*> pointersTo(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

pid_t start(const WatchedCommand& command) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, command.output.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0666);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  // A session of its own has no terminal, which a group in the background would wait for.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t child = 0;
  const std::vector<char*> words = pointersTo(command.words);
  const int error = ::posix_spawnp(&child, words[0], &actions, &attributes, words.data(),
                                   pointersTo(command.environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return child;
  throw std::invalid_argument(
      fmt::format("cannot start {}: {}", forTerminal(command.words[0]), std::strerror(error)));
}

bool hasEnded(pid_t child, int& status) {
  return ::waitpid(child, &status, WNOHANG) != 0;
}

RunEnd endOf(int status) {
  if (WIFSIGNALED(status)) return {RunEnd::Why::kSignal, WTERMSIG(status)};
  return {RunEnd::Why::kStatus, WEXITSTATUS(status)};
}

// So that a launcher can end what it started. A second interrupt does not wait.
void endGently(pid_t child, const Interrupts& interrupts) {
  ::kill(-child, SIGTERM);
  const int before = interrupts.count();
  const auto end = Clock::now() + kForTheFirst;
  int status = 0;
  while (!hasEnded(child, status) && interrupts.count() == before && Clock::now() < end) {
    ::usleep(std::chrono::microseconds(kPause).count());
  }
}

RunEnd waitFor(pid_t child, std::optional<std::chrono::seconds> limit,
               const Interrupts& interrupts) {
  const auto began = Clock::now();
  int status = 0;
  while (!hasEnded(child, status)) {
    const bool late = limit && Clock::now() - began >= *limit;
    if (late || interrupts.signal() != 0) {
      endGently(child, interrupts);
      if (!late) return {RunEnd::Why::kInterrupted, interrupts.signal()};
      return {RunEnd::Why::kLate, static_cast<int>(limit->count())};
    }
    ::usleep(std::chrono::microseconds(kPause).count());
  }
  return endOf(status);
}

}  // namespace

std::string RunEnd::text() const {
  switch (why) {
    case Why::kStatus:
      return fmt::format("ended with exit status {}", number);
    case Why::kSignal:
      return fmt::format("was killed: {}", ::strsignal(number));
    case Why::kLate:
      return fmt::format("did not end within {} s", number);
    case Why::kInterrupted:
      return "was interrupted";
  }
  return "";
}

RunEnd watchedRun(const WatchedCommand& command, std::optional<std::chrono::seconds> limit,
                  const Interrupts& interrupts) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGCHLD, SIG_DFL);  // ignored, it would take the exit status with it
  const auto began = Clock::now();
  const pid_t child = start(command);
  RunEnd end = waitFor(child, limit, interrupts);
  end.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  endChildProcesses();
  return end;
}

}  // namespace ebbtide::cli
