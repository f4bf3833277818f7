#include "doctor/child_output.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

extern char** environ;  // NOLINT: POSIX names it so

namespace ebbtide::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = 1 << 20;

std::vector<char*> environmentWithoutOurs() {
  std::vector<char*> kept;
  for (char** at = environ; *at != nullptr; ++at) {
    if (!std::string_view(*at).starts_with("EBBTIDE")) kept.push_back(*at);
  }
  kept.push_back(nullptr);
  return kept;
}

// 0 or an errno. `output`: where its stdout goes.
int spawn(const std::vector<std::string>& command, int output, pid_t& child) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> environment = environmentWithoutOurs();
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  // A group of its own: what it started ends with it.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int error = ::posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(),
                                   environment.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

// False: the time was over before the end came.
bool readAll(int descriptor, Clock::time_point end, std::string& text) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = left.count() > 0 ? ::poll(&waiting, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    if (text.size() < kMostBytes) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

ChildOutput outputOf(const std::vector<std::string>& command, std::chrono::seconds limit) {
  ChildOutput result;
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    result.problem = std::string("no pipe: ") + std::strerror(errno);
    return result;
  }
  pid_t child = 0;
  const int error = spawn(command, pipe[1], child);
  ::close(pipe[1]);
  if (error != 0) {
    ::close(pipe[0]);
    result.problem = std::string("cannot be started: ") + std::strerror(error);
    return result;
  }
  const bool ended = readAll(pipe[0], Clock::now() + limit, result.text);
  ::close(pipe[0]);
  if (!ended) ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) {
    result.problem = "did not end within " + std::to_string(limit.count()) + " s";
  } else if (WIFSIGNALED(status)) {
    result.problem = std::string("was killed: ") + ::strsignal(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    result.problem = "ended with status " + std::to_string(WEXITSTATUS(status));
  }
  return result;
}

}  // namespace ebbtide::cli
