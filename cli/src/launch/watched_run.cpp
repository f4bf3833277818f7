#include "launch/watched_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
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

struct StartOrder {
  const std::vector<char*> words, environment;
  const char* output;
  pid_t caller;
};

// In the forked child of a process with one thread. Returns the error.
int becomeCommand(const StartOrder& order) {
  ::setsid();  // it has no terminal, which a group in the background would wait for
  // A caller that is killed cannot end it. The children of a shell are not told.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != order.caller) return ESRCH;
  const int input = ::open("/dev/null", O_RDONLY);
  const int output = ::open(order.output, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (input < 0 || output < 0) return errno;
  if (::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0) return errno;
  if (input > 2) ::close(input);
  if (output > 2) ::close(output);
  ::execvpe(order.words[0], order.words.data(), order.environment.data());
  return errno;
}

// posix_spawn() has no word for the end of the caller.
pid_t start(const WatchedCommand& command) {
  const StartOrder order{.words = pointersTo(command.words),
                         .environment = pointersTo(command.environment),
                         .output = command.output.c_str(),
                         .caller = ::getpid()};
  int failure[2];
  int error = ::pipe2(failure, O_CLOEXEC) == 0 ? 0 : errno;
  const pid_t child = error == 0 ? ::fork() : -1;
  if (child == 0) {
    error = becomeCommand(order);
    const auto told = ::write(failure[1], &error, sizeof error);
    ::_exit(told == sizeof error ? 127 : 126);
  }
  if (error == 0) {
    if (child < 0) error = errno;
    ::close(failure[1]);
    while (child > 0 && ::read(failure[0], &error, sizeof error) < 0 && errno == EINTR) {
    }
    ::close(failure[0]);
  }
  if (error == 0) return child;
  if (child > 0) ::waitpid(child, nullptr, 0);
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
