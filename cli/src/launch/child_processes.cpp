#include "launch/child_processes.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ebbtide::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks have 5 s to leave their reports (the plugin's ExitSignal::kMostWait).
constexpr std::chrono::seconds kToEnd(6), kToBeKilled(5);

// -1: no process.
pid_t numberIn(std::string_view text) {
  pid_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "12 (a name) S 7 …": the name may have parentheses and spaces itself.
pid_t parentIn(const std::string& stat) {
  const std::size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos || stat.size() < name_end + 5
             ? -1
             : numberIn(std::string_view(stat).substr(name_end + 4));
}

void signalChildren(int signal) {
  for (const pid_t child : childProcesses()) ::kill(child, signal);
}

// False: there are some after that time.
bool waitedForAll(int signal, std::chrono::seconds limit) {
  const auto end = Clock::now() + limit;
  for (;;) {
    signalChildren(signal);  // also those that have become ours meanwhile
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0) return true;
    if (Clock::now() >= end) return false;
    ::usleep(20000);
  }
}

}  // namespace

std::vector<pid_t> childProcesses() {
  std::vector<pid_t> children;
  std::error_code unreadable;
  std::filesystem::directory_iterator entry("/proc", unreadable);
  for (; !unreadable && entry != std::filesystem::directory_iterator();
       entry.increment(unreadable)) {
    const pid_t process = numberIn(entry->path().filename().native());
    if (process <= 0) continue;
    // The read fails once the process has ended. getline() throws nothing then; the text is empty.
    std::string stat;
    std::getline(std::ifstream(entry->path() / "stat"), stat, '\0');
    if (parentIn(stat) == ::getpid()) children.push_back(process);
  }
  return children;
}

void endChildProcesses() {
  if (!waitedForAll(SIGTERM, kToEnd)) waitedForAll(SIGKILL, kToBeKilled);
}

}  // namespace ebbtide::cli
