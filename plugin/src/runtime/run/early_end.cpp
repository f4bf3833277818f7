#include "runtime/run/early_end.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <thread>

namespace ebbtide::plugin {
namespace {

constexpr auto kPause = std::chrono::milliseconds(20);
constexpr const char* kTrains = ".trains";
constexpr const char* kEnded = ".ended";

std::atomic<void (*)()> leave_by{nullptr};
std::atomic<bool> has_begun{false};

void makeFile(const std::string& path) {
  const std::ofstream file(path);
}

std::string fileOfThis(const std::string& folder, const char* kind) {
  return fmt::format("{}/{}{}", folder, ::getpid(), kind);
}

// "12 (a name) S 7 …": the name may have parentheses and spaces itself. Z and X: it has ended, and
// its parent has not waited for it.
bool lives(const std::string& process) {
  std::string stat;
  std::getline(std::ifstream("/proc/" + process + "/stat"), stat, '\0');
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos || stat.size() < name_end + 3) return false;
  const char state = stat[name_end + 2];
  return state != 'Z' && state != 'X';
}

struct Ranks {
  int ended = 0;
  bool are_late = false;  // one trains, and has not ended
};

Ranks ranksIn(const std::string& folder) {
  Ranks ranks;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    std::filesystem::path file = entry.path();
    if (file.extension() == kEnded) ++ranks.ended;
    if (file.extension() != kTrains || !lives(file.stem().string())) continue;
    std::error_code unknown;
    if (!std::filesystem::exists(file.replace_extension(kEnded), unknown)) ranks.are_late = true;
  }
  return ranks;
}

}  // namespace

void EarlyEnd::leaveBy(void (*leave)()) noexcept {
  leave_by = leave;
}

bool EarlyEnd::begun() noexcept {
  return has_begun;
}

void EarlyEnd::announce(const std::string& folder) noexcept try {
  makeFile(folder + "/loaded");
} catch (const std::exception&) {  // it is there for a message alone
}

void EarlyEnd::noteTraining(const std::string& folder) noexcept try {
  makeFile(fileOfThis(folder, kTrains));
} catch (const std::exception&) {  // others wait less long
}

void EarlyEnd::waitForOthers(const std::string& folder, int local_ranks,
                             std::chrono::milliseconds most,
                             std::chrono::milliseconds late_wait) noexcept try {
  const auto began = std::chrono::steady_clock::now();
  for (;;) {
    const Ranks ranks = ranksIn(folder);
    const auto waited = std::chrono::steady_clock::now() - began;
    if (ranks.ended >= local_ranks || waited >= (ranks.are_late ? late_wait : most)) return;
    std::this_thread::sleep_for(kPause);
  }
} catch (const std::exception&) {  // the process ends
}

void EarlyEnd::end(const std::string& folder, int local_ranks,
                   std::chrono::milliseconds most_wait) noexcept {
  if (has_begun.exchange(true)) return;
  try {
    makeFile(fileOfThis(folder, kEnded));
  } catch (const std::exception&) {  // others wait for as long as they may
  }
  waitForOthers(folder, local_ranks, most_wait);
  if (const auto leave = leave_by.load()) leave();
  std::exit(0);
}

}  // namespace ebbtide::plugin
