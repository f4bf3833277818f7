#include "config.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "available_memory.hpp"
#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/shown_text.hpp"
#include "rank_socket.hpp"
#include "variables.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::shownText;

int integerVariable(const char* name, int low, int high, int otherwise) {
  const std::string text = variable(name);
  if (text.empty()) return otherwise;
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || *end != '\0' || value < low || value > high) {
    throw std::invalid_argument(
        fmt::format("{}={} is not a whole number from {} to {}", name, shownText(text), low, high));
  }
  return value;
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
  throw std::invalid_argument(fmt::format("{}={} is not one of: {}", name, shownText(text), list));
}

std::string replaceRank(std::string path, int rank) {
  const auto at = path.find("{rank}");
  if (at != std::string::npos) path.replace(at, 6, std::to_string(rank));
  return path;
}

// By making a file there: permissions alone say nothing of /proc, or to root.
void checkWritableFolder(const char* name, const std::string& folder) {
  std::string path = folder + "/ebbtide-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) {
    throw std::invalid_argument(fmt::format("{}: no file can be made in the folder {}: {}", name,
                                            shownText(folder), std::strerror(errno)));
  }
  ::close(file);
  ::unlink(path.c_str());
}

// To be written later, in a folder that is there; empty where the variable is.
std::string fileOfRank(const char* name, int rank) {
  std::string path = replaceRank(variable(name), rank);
  if (path.empty()) return path;
  const auto parent = std::filesystem::path(path).parent_path();
  checkWritableFolder(name, parent.empty() ? "." : parent.string());
  std::error_code error;
  const auto there = std::filesystem::status(path, error).type();
  if (there == std::filesystem::file_type::none) {
    throw std::invalid_argument(
        fmt::format("{}: {} cannot be a file: {}", name, shownText(path), error.message()));
  }
  if (there == std::filesystem::file_type::directory)
    throw std::invalid_argument(fmt::format("{}: {} is a folder", name, shownText(path)));
  return path;
}

// Written again and again, while the program may go to another folder.
void readTextFile(Config& config) {
  const std::string given = variable("EBBTIDE_TEXTFILE");
  if (given.empty()) return;
  if (config.local_world_size > 1 && given.find("{rank}") == std::string::npos) {
    throw std::invalid_argument(
        fmt::format("EBBTIDE_TEXTFILE={}: the {} ranks of this machine would write one file; put "
                    "{{rank}} into its name",
                    shownText(given), config.local_world_size));
  }
  config.text_file_path =
      std::filesystem::absolute(fileOfRank("EBBTIDE_TEXTFILE", config.rank)).string();
}

// As the XDG base directory specification has it; empty where there is no home.
std::string cacheFolder() {
  const std::string given = variable("XDG_CACHE_HOME");
  if (given.starts_with('/')) return given + "/ebbtide";
  const std::string home = variable("HOME");
  return home.starts_with('/') ? home + "/.cache/ebbtide" : "";
}

// torchrun's names, then Slurm's, Open MPI's, and those of MPICH and what comes from it.
void readRank(Config& config) {
  config.rank = launcherVariable({"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}, 0);
  config.local_rank = launcherVariable(
      {"LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}, 0);
  config.world_size =
      launcherVariable({"WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1);
  config.local_world_size =
      std::max(1, launcherVariable({"LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"},
                                   1));
}

// A rank that no entry is for has no budget: it is measured.
void readBudget(Config& config) {
  const std::string text = variable("EBBTIDE_BUDGET");
  if (text.empty()) return;
  const auto budgets = scheduler::RankBudgets::parse("EBBTIDE_BUDGET", text);
  config.budgets = budgets;
  if (budgets.dependsOnStages(config.rank)) config.stage_budgets = budgets;
  config.budget_text = budgets.textOf(config.rank).value_or("");
  if (config.budget_text.empty()) return;
  config.budget_bytes = parseSize("EBBTIDE_BUDGET", config.budget_text, config.local_world_size);
}

}  // namespace

std::int64_t machineMemoryBytes() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
}

std::int64_t usableMemoryBytes(const std::filesystem::path& root) {
  const std::int64_t machine = machineMemoryBytes();
  return std::min(machine, groupLimitBytes(root).value_or(machine));
}

std::string aboveGroupLimit(std::int64_t budget_bytes,
                            std::optional<std::int64_t> group_limit_bytes) {
  if (!group_limit_bytes || budget_bytes <= *group_limit_bytes) return "";
  return fmt::format(
      "the budget of {} is more than the control group (container, job) may use, {}: the kernel "
      "ends the process before the budget is reached. In percent a budget is of the smaller one: "
      "EBBTIDE_BUDGET=80%",
      formatBytes(budget_bytes), formatBytes(*group_limit_bytes));
}

std::int64_t hostShareBytes(int local_world_size) {
  return usableMemoryBytes() / 5 * 4 / std::max(1, local_world_size);
}

std::int64_t parseSize(const std::string& name, const std::string& text, int local_world_size) {
  return scheduler::parseSize(name, text, usableMemoryBytes() / std::max(1, local_world_size));
}

Config configFromEnvironment() {
  if (const std::string unknown = unknownVariable(); !unknown.empty()) {
    throw std::invalid_argument(unknown);
  }
  Config config;
  readRank(config);
  choice("EBBTIDE", {"0", "1"}, "0");
  readBudget(config);
  config.port = integerVariable("EBBTIDE_PORT", 1, 65535, config.port);
  if (const std::string bind = variable("EBBTIDE_BIND"); !bind.empty()) config.bind = bind;
  config.socket_dir = variable("EBBTIDE_SOCKET_DIR");
  config.job_id = RankSocket::jobIdFromEnvironment();
  config.token_file = variable("EBBTIDE_TOKEN_FILE");
  if (!config.token_file.empty())  // the program may go to another folder
    config.token_file = std::filesystem::absolute(config.token_file).string();
  config.log_level =
      choice("EBBTIDE_LOG", {"debug", "info", "warning", "error", "off"}, config.log_level);
  config.on_infeasible = choice("EBBTIDE_ON_INFEASIBLE", {"stop", "best-effort"}, "stop") == "stop"
                             ? OnInfeasible::kStop
                             : OnInfeasible::kBestEffort;
  config.replay_ahead = choice("EBBTIDE_REPLAY_AHEAD", {"auto", "never"}, "auto") == "auto";
  config.offload = choice("EBBTIDE_OFFLOAD", {"auto", "never"}, "auto") == "auto";
  config.own_allocator = choice("EBBTIDE_ALLOCATOR", {"ebbtide", "torch"}, "ebbtide") == "ebbtide";
  if (!config.own_allocator && (config.budget_bytes || config.stage_budgets)) {
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
  config.audit_cache_dir = variable("EBBTIDE_AUDIT_CACHE");
  config.audit_cache_asked_for = !config.audit_cache_dir.empty();
  if (config.audit_cache_dir.empty()) config.audit_cache_dir = cacheFolder();
  if (config.audit_cache_dir == "off") config.audit_cache_dir.clear();
  if (!config.audit_cache_dir.empty()) {  // the program may go to another folder
    config.audit_cache_dir = std::filesystem::absolute(config.audit_cache_dir).string();
  }
  config.report_path = fileOfRank("EBBTIDE_REPORT", config.rank);
  readTextFile(config);
  config.perfetto_path = fileOfRank("EBBTIDE_PERFETTO", config.rank);
  if (!config.perfetto_path.empty())  // the program may go to another folder
    config.perfetto_path = std::filesystem::absolute(config.perfetto_path).string();
  config.spill_dir = variable("EBBTIDE_SPILL_DIR");
  if (!config.spill_dir.empty()) checkWritableFolder("EBBTIDE_SPILL_DIR", config.spill_dir);
  config.trace_dir = variable("EBBTIDE_TRACE_DIR");
  if (!config.trace_dir.empty()) {
    ::mkdir(config.trace_dir.c_str(), 0777);  // another rank may be first; the check has the word
    checkWritableFolder("EBBTIDE_TRACE_DIR", config.trace_dir);
  }
  return config;
}

}  // namespace ebbtide::plugin
