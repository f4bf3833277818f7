#include "launch/run_guard.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "launch/child_processes.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPause(20);
constexpr milliseconds kForTheFirst(10000);  // a launcher ends its ranks
constexpr milliseconds kOneHangUp(500);      // a shell tells of it, then the system

// What the caller has noted. Its end is one more.
class Caller {
 public:
  explicit Caller(int descriptor) : descriptor_(descriptor) {}

  int signal() {  // the last one; 0: none
    listen();
    return signal_;
  }
  int count() {
    listen();
    return count_;
  }

 private:
  void listen() {
    char signal = 0;
    ssize_t bytes = 0;
    while (!gone_ && (bytes = ::read(descriptor_, &signal, 1)) >= 0) {
      gone_ = bytes == 0;
      signal_ = gone_ ? SIGKILL : signal;
      ++count_;
    }
  }

  int descriptor_, signal_ = 0, count_ = 0;
  bool gone_ = false;
};

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
  pid_t guard;
};

// In the forked child of a process with one thread. Returns the error.
int becomeCommand(const StartOrder& order) {
  ::setsid();  // it has no terminal, which a group in the background would wait for
  // A guard that is killed cannot end it. The children of a shell are not told.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != order.guard) return ESRCH;
  const int input = ::open("/dev/null", O_RDONLY);
  const int output = ::open(order.output, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (input < 0 || output < 0) return errno;
  if (::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0) return errno;
  if (input > 2) ::close(input);
  if (output > 2) ::close(output);
  ::execvpe(order.words[0], order.words.data(), order.environment.data());
  return errno;
}

// posix_spawn() has no word for the end of the guard.
pid_t start(const WatchedCommand& command) {
  const StartOrder order{.words = pointersTo(command.words),
                         .environment = pointersTo(command.environment),
                         .output = command.output.c_str(),
                         .guard = ::getpid()};
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

// Takes what the command has left, too: a process that has ended looks alive until it is taken.
bool hasEnded(pid_t child, int& status) {
  int ended_with = 0;
  while (const pid_t ended = ::waitpid(-1, &ended_with, WNOHANG)) {
    if (ended > 0 && ended != child) continue;
    if (ended == child) status = ended_with;
    return true;
  }
  return false;
}

// So that a launcher can end what it started. A second interrupt does not wait.
void endGently(pid_t child, Caller& caller) {
  const int before = caller.count();
  ::kill(-child, SIGTERM);
  const auto began = Clock::now();
  const auto heeded = [&] { return caller.count() != before && Clock::now() - began > kOneHangUp; };
  int status = 0;
  while (!hasEnded(child, status) && !heeded() && Clock::now() - began < kForTheFirst) {
    ::usleep(std::chrono::microseconds(kPause).count());
  }
}

RunEnd waitFor(pid_t child, std::optional<std::chrono::seconds> limit, Caller& caller) {
  const auto began = Clock::now();
  int status = 0;
  while (!hasEnded(child, status)) {
    const bool late = limit && Clock::now() - began >= *limit;
    if (late || caller.signal() != 0) {
      endGently(child, caller);
      if (!late) return {RunEnd::Why::kInterrupted, caller.signal()};
      return {RunEnd::Why::kLate, static_cast<int>(limit->count())};
    }
    ::usleep(std::chrono::microseconds(kPause).count());
  }
  return endOf(status);
}

// Who reads what the caller prints would wait for the guard, too.
void closeOutput() {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : {0, 1, 2}) ::dup2(nothing, descriptor);
  if (nothing > 2) ::close(nothing);
}

void endAfterFailure() noexcept try { endChildProcesses(); } catch (const std::exception&) {
  return;  // no memory for their list
}

[[noreturn]] void answerWith(int answer, std::string_view bytes, int exit_status) {
  const std::size_t sent = std::min(bytes.size(), kMostAnswered);
  const ssize_t written = ::write(answer, bytes.data(), sent);
  ::_exit(written == static_cast<ssize_t>(sent) ? exit_status : 1);
}

}  // namespace

RunEnd endOf(int status) {
  if (WIFSIGNALED(status)) return {RunEnd::Why::kSignal, WTERMSIG(status)};
  return {RunEnd::Why::kStatus, WEXITSTATUS(status)};
}

// A session of its own: a terminal's Ctrl-C reaches the caller alone, which passes it on. Signals
// that are sent to all processes of a job are the caller's, too: here they do nothing.
void guardRun(const WatchedCommand& command, std::optional<std::chrono::seconds> limit,
              int caller_pipe, int answer) noexcept {
  static_assert(std::is_trivially_copyable_v<RunEnd>);
  ::setsid();
  ::prctl(PR_SET_NAME, kGuardName);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  closeOutput();
  try {
    Caller caller(caller_pipe);
    const auto began = Clock::now();
    const pid_t child = start(command);
    RunEnd end = waitFor(child, limit, caller);
    end.seconds = std::chrono::duration<double>(Clock::now() - began).count();
    endChildProcesses();
    answerWith(answer, {reinterpret_cast<const char*>(&end), sizeof end}, 0);
  } catch (const std::exception& error) {
    endAfterFailure();
    answerWith(answer, error.what(), 1);
  }
}

}  // namespace ebbtide::cli
