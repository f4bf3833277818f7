// Config: what the EBBTIDE_* environment asks for. Torch-free.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "config/rank_place.hpp"
#include "ebbtide/scheduler/budget_form.hpp"
#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/rank_budgets.hpp"

namespace ebbtide::plugin {

enum class OnInfeasible { kStop, kBestEffort };

struct PlacedConfig;

// With a place: of the rank that has it.
struct Config : RankPlace {
  std::optional<std::int64_t> budget_bytes;  // none: measure only
  std::string budget_text;                   // this rank's, as given: "80%"
  scheduler::BudgetForm budget_form;         // the same, read
  std::string gpu_budget;                    // the same, where it is each GPU's instead
  bool budget_is_of_gpus = false;
  std::optional<scheduler::RankBudgets> budgets;  // of all ranks, where there are any
  // Where the rank's budget is that of its stage: until that is known, the two above hold.
  std::optional<scheduler::RankBudgets> stage_budgets;
  // When the process began, of the whole machine, less kFreeShare: "auto" is a part of it.
  std::int64_t available_bytes = 0;
  int port = 9464;             // of local rank 0
  bool port_is_given = false;  // else the next free one will do
  std::string bind = "127.0.0.1";
  std::string socket_dir;             // empty: the user's folder for sockets
  std::string job_id;                 // as it names a folder
  std::string token_file;             // empty: over TCP nothing can be changed
  std::string report_path;            // {rank} is replaced; empty: none
  std::string text_file_path;         // the series are written here, {rank} replaced; empty: none
  std::string perfetto_path;          // of the last steps, at exit; {rank} too; empty: none
  std::string spill_dir;              // empty: the system's folder for temporary files
  std::string trace_dir;              // recorded traces are written here; empty: none
  bool asks_for_audit_cache = false;  // it is gone, and a line says so
  std::string planner = "auto";
  std::chrono::milliseconds planning_time{2500};  // a search's longest; no variable sets it
  std::optional<std::int64_t> planning_work;      // as StepSearch's; nor this
  std::string log_level = "info";
  OnInfeasible on_infeasible = OnInfeasible::kStop;
  bool offload =
      true;  // plans may write values to the host; without it only what nothing else holds
  bool replay_ahead = true;   // replays may run while messages of other ranks are under way
  bool own_allocator = true;  // false leaves torch's CPU allocator in place (measuring only)
  struct EndAfter {           // for `ebbtide fit`
    std::string folder;       // in which the ranks wait for each other
    std::int64_t steps = 0;   // with a backward pass
  };
  std::optional<EndAfter> end_after;  // the process ends where the next step begins
  struct Written {                    // as the environment has them
    std::string budget;
    std::string report, text_file, perfetto;  // {rank} is still in them; absolute
  };
  Written written;

  // Does the budget depend on the rank, or on how many share the machine?
  bool budgetNeedsPlace() const;
  // Of the host's memory, the rank's part. Reads files.
  scheduler::BudgetFacts memoryFacts() const;
  // The same environment at another place.
  PlacedConfig at(const RankPlace& place, std::string job) const;
};

struct PlacedConfig {
  Config config;
  std::string problem;  // what cannot be done there, one sentence; empty: nothing
};

// Reads and checks the environment. Throws std::invalid_argument: one sentence that names the
// variable and what is accepted.
Config configFromEnvironment();

std::int64_t machineMemoryBytes();
// The smaller of the machine's memory and the limit of this process's control group (a container's,
// a job's); reads files, since a limit may change.
std::int64_t usableMemoryBytes(const std::filesystem::path& root = "/");
// A line where a budget is larger than the machine's memory, or its control group's limit; empty
// where it is not.
std::string aboveMemory(std::int64_t budget_bytes, std::int64_t machine_bytes,
                        std::optional<std::int64_t> group_limit_bytes);
// Of usableMemoryBytes(), what values of one rank's GPU may take: all ranks of it have as much, and
// leave a fifth.
std::int64_t hostShareBytes(int local_world_size);
using scheduler::formatBytes;

}  // namespace ebbtide::plugin
