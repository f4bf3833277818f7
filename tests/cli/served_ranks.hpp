// A machine of made-up ranks, served by a process of their own.
#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "checked_json.hpp"

extern char** environ;  // NOLINT: POSIX names it so

namespace ebbtide::cli::test {

// metrics_serve, which has printed its line.
class Served {
 public:
  Served(const std::string& folder, const std::string& job, const std::string& ranks,
         std::vector<std::string> more = {}) {
    std::vector<std::string> words = {METRICS_SERVE, "--ranks",  ranks, "--socket-dir",
                                      folder,        "--job-id", job};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::array<int, 2> pipe{};
    if (::pipe(pipe.data()) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe[1], 1);
    ::posix_spawn_file_actions_addclose(&actions, pipe[0]);
    if (::posix_spawn(&process_, METRICS_SERVE, &actions, nullptr, arguments.data(), environ) !=
        0) {
      std::abort();
    }
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    std::string line;
    for (char letter = 0; ::read(pipe[0], &letter, 1) == 1 && letter != '\n';) line += letter;
    ::close(pipe[0]);
    const auto told = parseChecked(line);
    if (told) port_ = integerAt(*told, {"port"}).value_or(0);
  }
  ~Served() {
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  pid_t process_ = 0;
  std::int64_t port_ = 0;
};

}  // namespace ebbtide::cli::test
