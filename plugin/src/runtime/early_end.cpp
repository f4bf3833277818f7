#include "runtime/early_end.hpp"

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
constexpr const char* kEnded = ".ended";

std::atomic<void (*)()> leave_by{nullptr};
std::atomic<bool> has_begun{false};

void makeFile(const std::string& path) {
  const std::ofstream file(path);
}

int endedIn(const std::string& folder) {
  int ended = 0;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    if (entry.path().extension() == kEnded) ++ended;
  }
  return ended;
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

void EarlyEnd::waitForOthers(const std::string& folder, int local_ranks,
                             std::chrono::milliseconds most) noexcept try {
  const auto until = std::chrono::steady_clock::now() + most;
  while (endedIn(folder) < local_ranks && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(kPause);
  }
} catch (const std::exception&) {  // the process ends
}

void EarlyEnd::end(const std::string& folder, int local_ranks) noexcept {
  if (has_begun.exchange(true)) return;
  try {
    makeFile(fmt::format("{}/{}{}", folder, ::getpid(), kEnded));
  } catch (const std::exception&) {  // others wait for as long as they may
  }
  waitForOthers(folder, local_ranks, kMostWait);
  if (const auto leave = leave_by.load()) leave();
  std::exit(0);
}

}  // namespace ebbtide::plugin
