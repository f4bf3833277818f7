#include "config.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/planner.hpp"

extern char** environ;

namespace ebbtide::plugin {
namespace {

constexpr std::array<std::string_view, 11> kVariables = {
    "EBBTIDE",         "EBBTIDE_BUDGET",    "EBBTIDE_PORT",          "EBBTIDE_BIND",
    "EBBTIDE_REPORT",  "EBBTIDE_SPILL_DIR", "EBBTIDE_ON_INFEASIBLE", "EBBTIDE_LOG",
    "EBBTIDE_PLANNER", "EBBTIDE_ALLOCATOR", "EBBTIDE_TRACE_DIR"};

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? std::string() : std::string(text);
}

int editDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

void rejectUnknownVariables() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("EBBTIDE_") ||
        std::find(kVariables.begin(), kVariables.end(), name) != kVariables.end()) {
      continue;
    }
    const auto nearest = std::min_element(
        kVariables.begin(), kVariables.end(),
        [&](auto a, auto b) { return editDistance(name, a) < editDistance(name, b); });
    throw std::invalid_argument(
        fmt::format("unknown variable {}; did you mean {}?", name, *nearest));
  }
}

int integerVariable(const char* name, int low, int high, int otherwise) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (errno != 0 || *end != '\0' || value < low || value > high) {
    throw std::invalid_argument(
        fmt::format("{}={} is not a whole number from {} to {}", name, text, low, high));
  }
  return static_cast<int>(value);
}

// Rank variables belong to the launcher: anything unreadable there means "not given".
int launcherVariable(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names) {
    const std::string text = variable(name);
    if (!text.empty() &&
        std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); }) &&
        text.size() < 9) {
      return std::atoi(text.c_str());
    }
  }
  return otherwise;
}

std::string choice(const char* name, std::initializer_list<std::string_view> allowed,
                   std::string otherwise) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  std::string list;
  for (std::string_view candidate : allowed) {
    if (candidate == text) return text;
    list += (list.empty() ? "" : ", ") + std::string(candidate);
  }
  throw std::invalid_argument(fmt::format("{}={} is not one of: {}", name, text, list));
}

std::string replaceRank(std::string path, int rank) {
  const auto at = path.find("{rank}");
  if (at != std::string::npos) path.replace(at, 6, std::to_string(rank));
  return path;
}

void checkWritableFolder(const char* name, const std::string& folder) {
  if (!std::filesystem::is_directory(folder) || ::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw std::invalid_argument(
        fmt::format("{}: folder {} does not exist or cannot be written", name, folder));
  }
}

double totalMemoryBytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGE_SIZE));
}

}  // namespace

std::int64_t parseSize(const std::string& name, const std::string& text, int local_world_size) {
  return scheduler::parseSize(name, text, totalMemoryBytes() / std::max(1, local_world_size));
}

Config configFromEnvironment() {
  rejectUnknownVariables();
  Config config;
  config.rank = launcherVariable({"RANK", "SLURM_PROCID"}, 0);
  config.local_rank = launcherVariable({"LOCAL_RANK", "SLURM_LOCALID"}, 0);
  config.world_size = launcherVariable({"WORLD_SIZE", "SLURM_NTASKS"}, 1);
  const int local_world = launcherVariable({"LOCAL_WORLD_SIZE"}, 1);
  choice("EBBTIDE", {"0", "1"}, "0");
  const std::string budget = variable("EBBTIDE_BUDGET");
  if (!budget.empty()) config.budget_bytes = parseSize("EBBTIDE_BUDGET", budget, local_world);
  config.port = integerVariable("EBBTIDE_PORT", 1, 65535, config.port);
  if (const std::string bind = variable("EBBTIDE_BIND"); !bind.empty()) config.bind = bind;
  config.log_level =
      choice("EBBTIDE_LOG", {"debug", "info", "warning", "error", "off"}, config.log_level);
  config.on_infeasible = choice("EBBTIDE_ON_INFEASIBLE", {"stop", "best-effort"}, "stop") == "stop"
                             ? OnInfeasible::kStop
                             : OnInfeasible::kBestEffort;
  config.own_allocator = choice("EBBTIDE_ALLOCATOR", {"ebbtide", "torch"}, "ebbtide") == "ebbtide";
  if (!config.own_allocator && config.budget_bytes) {
    throw std::invalid_argument(
        "EBBTIDE_ALLOCATOR=torch cannot hold a budget; unset EBBTIDE_BUDGET or the allocator");
  }
  if (const std::string planner = variable("EBBTIDE_PLANNER"); !planner.empty()) {
    try {
      scheduler::planner(planner);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("EBBTIDE_PLANNER: {}", error.what()));
    }
    config.planner = planner;
  }
  config.report_path = replaceRank(variable("EBBTIDE_REPORT"), config.rank);
  if (!config.report_path.empty()) {
    const auto parent = std::filesystem::path(config.report_path).parent_path();
    checkWritableFolder("EBBTIDE_REPORT", parent.empty() ? "." : parent.string());
    if (std::filesystem::is_directory(config.report_path)) {
      throw std::invalid_argument(
          fmt::format("EBBTIDE_REPORT: {} is a folder", config.report_path));
    }
  }
  config.spill_dir = variable("EBBTIDE_SPILL_DIR");
  if (!config.spill_dir.empty()) checkWritableFolder("EBBTIDE_SPILL_DIR", config.spill_dir);
  config.trace_dir = variable("EBBTIDE_TRACE_DIR");
  if (!config.trace_dir.empty()) checkWritableFolder("EBBTIDE_TRACE_DIR", config.trace_dir);
  return config;
}

std::string formatBytes(std::int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (std::abs(value) < 1024.0) return fmt::format("{} B", bytes);
  if (std::abs(value) < 1024.0 * 1024) return fmt::format("{:.1f} KiB", value / 1024);
  if (std::abs(value) < 1024.0 * 1024 * 1024)
    return fmt::format("{:.1f} MiB", value / (1024.0 * 1024));
  return fmt::format("{:.2f} GiB", value / (1024.0 * 1024 * 1024));
}

}  // namespace ebbtide::plugin
