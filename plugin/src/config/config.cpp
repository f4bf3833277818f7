#include "config/config.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

#include "base/variables.hpp"
#include "config/available_memory.hpp"
#include "config/rank_socket.hpp"
#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/shown_text.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::shownText;

// Of what a process has when it starts, "auto" leaves so much, or a quarter, to what it takes later
// beside torch's allocator: libraries' scratch, threads, recorded steps and the search for plans.
// Of a small training 45 MiB by its first step were measured, and some 20 more by its plan.
constexpr std::int64_t kTakenLaterBytes = std::int64_t{128} << 20;

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

struct WrittenFile {
  const char* name;
  std::string Config::WrittenPaths::*written;  // {rank} is still in it
  std::string Config::Files::*path;
};

constexpr std::array<WrittenFile, 3> kWrittenFiles = {{
    {"EBBTIDE_REPORT", &Config::WrittenPaths::report, &Config::Files::report},
    {"EBBTIDE_TEXTFILE", &Config::WrittenPaths::text_file, &Config::Files::text_file},
    {"EBBTIDE_PERFETTO", &Config::WrittenPaths::perfetto, &Config::Files::perfetto},
}};

std::string replaceRank(std::string path, int rank) {
  const std::string name = "{rank}", number = std::to_string(rank);
  for (auto at = path.find(name); at != std::string::npos; at = path.find(name, at + number.size()))
    path.replace(at, name.size(), number);
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

// Checked where it will be written: in a folder that is there; empty where the variable is.
void checkFile(const char* name, const std::string& path) {
  if (path.empty()) return;
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
}

// The program may go to another folder. `path`: of that variable.
std::string absolutePath(const char* name, const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (!error) return absolute.string();
  throw std::invalid_argument(
      fmt::format("{}={}: the folder that this process is in was deleted, or cannot be read ({}); "
                  "write a path that begins with /, or go to another folder first",
                  name, shownText(variable(name)), error.message()));
}

std::string absolutePath(const char* name) {
  return absolutePath(name, variable(name));
}

void setPaths(Config& config) {
  for (const WrittenFile& file : kWrittenFiles)
    config.files.*file.path = replaceRank(config.files.written.*file.written, config.rank);
}

// Each rank replaces the file of the one before; a pipe or a terminal takes all of them. An empty
// text says that nothing is wrong.
std::string oneFileProblem(const Config& config, const WrittenFile& file) {
  const std::string& path = config.files.written.*file.written;
  if (path.empty() || config.local_world_size <= 1 || path.find("{rank}") != std::string::npos)
    return "";
  std::error_code error;
  const auto there = std::filesystem::status(path, error).type();
  using std::filesystem::file_type;
  if (there != file_type::regular && there != file_type::not_found) return "";
  return fmt::format(
      "{}={}: the {} ranks of this machine would write one file; put {{rank}} into its name",
      file.name, shownText(variable(file.name)), config.local_world_size);
}

std::optional<Config::EndAfter> endAfter() {
  const std::string text = variable("EBBTIDE_FIT");
  if (text.empty()) return std::nullopt;
  const std::size_t colon = text.rfind(':');
  Config::EndAfter end{.folder = text.substr(0, colon)};
  const std::string steps = colon == std::string::npos ? "" : text.substr(colon + 1);
  const char* last = steps.data() + steps.size();
  const auto [parsed_to, error] = std::from_chars(steps.data(), last, end.steps);
  std::error_code unreadable;
  if (error != std::errc() || parsed_to != last || end.steps < 1 ||
      !std::filesystem::is_directory(end.folder, unreadable)) {
    throw std::invalid_argument(fmt::format(
        "EBBTIDE_FIT={}: write FOLDER:N, a folder that exists and steps", shownText(text)));
  }
  end.folder = absolutePath("EBBTIDE_FIT", end.folder);
  return end;
}

void readPaths(Config& config) {
  for (const WrittenFile& file : kWrittenFiles) {
    config.files.written.*file.written = absolutePath(file.name);
    const std::string problem = oneFileProblem(config, file);
    // A batch script has its scheduler's variables, and may be no rank.
    if (config.rank_told && !problem.empty()) throw std::invalid_argument(problem);
  }
  setPaths(config);
  for (const WrittenFile& file : kWrittenFiles) checkFile(file.name, config.files.*file.path);
}

// A rank that no entry is for has no budget: it is measured.
void setBudget(Config& config) {
  Config::Budget& budget = config.budget;
  if (!budget.by_rank) return;
  budget.bytes.reset();
  budget.by_stage.reset();
  budget.gpu_text.clear();
  if (budget.by_rank->dependsOnStages(config.rank)) budget.by_stage = budget.by_rank;
  budget.text = budget.by_rank->textOf(config.rank).value_or("");
  budget.form = scheduler::BudgetForm::parse("EBBTIDE_BUDGET",
                                             budget.by_rank->textOf(config.rank).value_or("none"));
  if (budget.is_of_gpus) {
    budget.gpu_text = budget.text;
  } else {
    budget.bytes = scheduler::resolve(budget.form, config.memoryFacts());
  }
}

void readBudget(Config& config) {
  Config::Budget& budget = config.budget;
  budget.written = variable("EBBTIDE_BUDGET");
  if (budget.written.empty()) return;
  budget.by_rank = scheduler::RankBudgets::parse("EBBTIDE_BUDGET", budget.written);
  budget.by_rank->refuseFewBytes("EBBTIDE_BUDGET");
  budget.available_bytes = std::min(availableMemoryBytes(kFreeShare), usableMemoryBytes());
  setBudget(config);
}

}  // namespace

std::int64_t machineMemoryBytes() {
  return std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
}

std::int64_t usableMemoryBytes(const std::filesystem::path& root) {
  const std::int64_t machine = machineMemoryBytes();
  return std::min(machine, groupLimitBytes(root).value_or(machine));
}

std::string aboveMemory(std::int64_t budget_bytes, const HostBytes& host) {
  const bool limited = host.group_limit && *host.group_limit < host.machine;
  const std::int64_t most = limited ? *host.group_limit : host.machine;
  const std::int64_t least = std::min(most, host.reachable);
  if (budget_bytes <= least) return "";
  const char* const whose = budget_bytes <= most ? "this rank can have here now"
                            : limited            ? "the control group (container, job) may use"
                                                 : "the machine's memory";
  return fmt::format(
      "the budget of {} is more than {}, {}: the kernel {} the process before the budget is "
      "reached. To take what the rank can have: EBBTIDE_BUDGET=auto",
      formatBytes(budget_bytes), whose, formatBytes(budget_bytes <= most ? least : most),
      budget_bytes <= most ? "may end" : "ends");
}

std::int64_t hostShareBytes(int local_world_size) {
  return usableMemoryBytes() / 5 * 4 / std::max(1, local_world_size);
}

Config configFromEnvironment() {
  if (const std::string unknown = unknownVariable(); !unknown.empty()) {
    throw std::invalid_argument(shownText(unknown, scheduler::kMostOfPath));
  }
  Config config;
  static_cast<RankPlace&>(config) = rankPlaceFromEnvironment();
  choice("EBBTIDE", {"0", "1"}, "0");
  readBudget(config);
  config.server.port = integerVariable("EBBTIDE_PORT", 1, 65535, config.server.port);
  config.server.port_is_given = !variable("EBBTIDE_PORT").empty();
  if (const std::string bind = variable("EBBTIDE_BIND"); !bind.empty()) config.server.bind = bind;
  config.server.socket_dir = absolutePath("EBBTIDE_SOCKET_DIR");
  config.job_id = RankSocket::jobIdFromEnvironment();
  config.server.token_file = absolutePath("EBBTIDE_TOKEN_FILE");
  config.log_level =
      choice("EBBTIDE_LOG", {"debug", "info", "warning", "error", "off"}, config.log_level);
  const std::string on_infeasible =
      choice("EBBTIDE_ON_INFEASIBLE", {"stop", "best-effort"}, "stop");
  config.planning.on_infeasible =
      on_infeasible == "stop" ? OnInfeasible::kStop : OnInfeasible::kBestEffort;
  config.planning.replay_ahead =
      choice("EBBTIDE_REPLAY_AHEAD", {"auto", "never"}, "auto") == "auto";
  config.planning.offload = choice("EBBTIDE_OFFLOAD", {"auto", "never"}, "auto") == "auto";
  config.own_allocator = choice("EBBTIDE_ALLOCATOR", {"ebbtide", "torch"}, "ebbtide") == "ebbtide";
  // Of any rank: which one it is may be told later.
  if (!config.own_allocator && config.budget.by_rank && !config.budget.is_of_gpus) {
    throw std::invalid_argument(
        "EBBTIDE_ALLOCATOR=torch cannot hold a budget; unset EBBTIDE_BUDGET or the allocator");
  }
  if (const std::string planner = variable("EBBTIDE_PLANNER"); !planner.empty()) {
    try {
      scheduler::planner(planner);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("EBBTIDE_PLANNER: {}", error.what()));
    }
    config.planning.planner = planner;
  }
  config.end_after = endAfter();
  config.asks_for_audit_cache = !variable("EBBTIDE_AUDIT_CACHE").empty();
  readPaths(config);
  config.files.spill_dir = absolutePath("EBBTIDE_SPILL_DIR");
  if (!config.files.spill_dir.empty())
    checkWritableFolder("EBBTIDE_SPILL_DIR", config.files.spill_dir);
  config.files.trace_dir = absolutePath("EBBTIDE_TRACE_DIR");
  if (!config.files.trace_dir.empty()) {
    // Another rank may be first; the check has the word.
    ::mkdir(config.files.trace_dir.c_str(), 0777);
    checkWritableFolder("EBBTIDE_TRACE_DIR", config.files.trace_dir);
  }
  return config;
}

bool Config::budgetNeedsPlace() const {
  const auto& by_rank = budget.by_rank;
  return by_rank && (by_rank->namesRanks() || by_rank->namesStages() ||
                     (by_rank->sharesMemory() && !budget.is_of_gpus));
}

scheduler::BudgetFacts Config::memoryFacts() const {
  const std::int64_t ranks = std::max(1, local_world_size);
  const std::int64_t available = budget.available_bytes / ranks;
  return {.memory_bytes = usableMemoryBytes() / ranks,
          .available_bytes = available - std::min(kTakenLaterBytes, available / 4)};
}

PlacedConfig Config::at(const RankPlace& place, std::string job) const {
  PlacedConfig placed{*this, ""};
  Config& config = placed.config;
  static_cast<RankPlace&>(config) = place;
  config.job_id = std::move(job);
  setBudget(config);
  setPaths(config);
  for (const WrittenFile& file : kWrittenFiles) {
    const std::string shared = oneFileProblem(config, file);
    if (shared.empty()) continue;
    if (config.local_rank > 0) (config.files.*file.path).clear();
    if (!placed.problem.empty()) placed.problem += "; ";
    placed.problem += shared + ". Of this run local rank 0 alone writes it";
  }
  return placed;
}

}  // namespace ebbtide::plugin
