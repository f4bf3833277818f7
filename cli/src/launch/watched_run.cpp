#include "launch/watched_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "launch/child_processes.hpp"
#include "launch/run_guard.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

constexpr useconds_t kPause = 20000;  // microseconds
constexpr int kMostTold = 4;          // interrupts

class Pipe {
 public:
  explicit Pipe(int flags) {
    if (::pipe2(ends_.data(), O_CLOEXEC | flags) != 0) ends_ = {-1, -1};
  }
  ~Pipe() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    closeWriter();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool isOpen() const { return ends_[0] >= 0; }
  int reader() const { return ends_[0]; }
  int writer() const { return ends_[1]; }
  void closeWriter() {
    if (ends_[1] >= 0) ::close(std::exchange(ends_[1], -1));
  }

 private:
  std::array<int, 2> ends_{};
};

// Returns its status. `line`: to the guard, which hears of each signal once.
int waitForGuard(pid_t guard, int line, const Interrupts& interrupts) {
  int status = 0;
  for (int told = 0; ::waitpid(guard, &status, WNOHANG) == 0; ::usleep(kPause)) {
    for (; told < interrupts.count(); ++told) {
      const char signal = static_cast<char>(interrupts.signal());
      [[maybe_unused]] const ssize_t written = ::write(line, &signal, 1);  // there is room
    }
    if (told > kMostTold) ::kill(guard, SIGKILL);  // it is stopped, say: its children become ours
  }
  return status;
}

// Written at once, by a guard that has ended.
std::string readAnswer(int descriptor) {
  std::string text(kMostAnswered, '\0');
  ssize_t bytes = 0;
  while ((bytes = ::read(descriptor, text.data(), text.size())) < 0 && errno == EINTR) {
  }
  text.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  return text;
}

}  // namespace

std::string RunEnd::text() const {
  switch (why) {
    case Why::kStatus:
      return fmt::format("ended with exit status {}", number);
    case Why::kSignal:
      return fmt::format("was killed: {}{}", ::strsignal(number),
                         number == SIGKILL ? " (memory may have been short)" : "");
    case Why::kLate:
      return fmt::format("did not end within {} s", number);
    case Why::kInterrupted:
      return "was interrupted";
  }
  return "";
}

RunEnd watchedRun(const WatchedCommand& command, std::optional<std::chrono::seconds> limit,
                  const Interrupts& interrupts) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // of what a guard leaves that is killed
  ::signal(SIGCHLD, SIG_DFL);          // ignored, it would take the exit status with it
  Pipe line(O_NONBLOCK), answer(0);
  const pid_t guard = line.isOpen() && answer.isOpen() ? ::fork() : -1;
  if (guard < 0) {
    throw std::invalid_argument(
        fmt::format("cannot start {}: {}", forTerminal(command.words[0]), std::strerror(errno)));
  }
  // Both keep the ends that they read, so that nobody writes to a pipe without a reader.
  if (guard == 0) {
    line.closeWriter();
    guardRun(command, limit, line.reader(), answer.writer());
  }
  answer.closeWriter();
  const RunEnd guards_end = endOf(waitForGuard(guard, line.writer(), interrupts));
  if (guards_end.why == RunEnd::Why::kSignal) {
    endChildProcesses();  // the guard's
    return guards_end;
  }
  const std::string answered = readAnswer(answer.reader());
  if (!guards_end.succeeded()) throw std::invalid_argument(answered);
  RunEnd end;
  answered.copy(reinterpret_cast<char*>(&end), sizeof end);
  return end;
}

}  // namespace ebbtide::cli
