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
  // EBBTIDE_BUDGET: what values may take of a rank's memory, or of each GPU's.
  struct Budget {
    std::string written;                // of all ranks, as the environment has it
    std::optional<std::int64_t> bytes;  // none: measure only
    std::string text;                   // this rank's, as given: "80%"
    scheduler::BudgetForm form;         // the same, read
    std::string gpu_text;               // the same, where it is each GPU's instead
    bool is_of_gpus = false;
    std::optional<scheduler::RankBudgets> by_rank;  // of all ranks, where there are any
    // Where the rank's budget is that of its stage: until that is known, bytes and text hold.
    std::optional<scheduler::RankBudgets> by_stage;
    // When the process began, of the whole machine, less kFreeShare: "auto" is a part of it.
    std::int64_t available_bytes = 0;
  };
  // Which plans a search makes, how long it takes at most, and what happens where none fits.
  struct Planning {
    std::string planner = "auto";
    std::chrono::milliseconds time{2500};  // a search's longest; no variable sets it
    std::optional<std::int64_t> work;      // as StepSearch's; nor this
    OnInfeasible on_infeasible = OnInfeasible::kStop;
    bool offload =
        true;  // plans may write values to the host; without it only what nothing else holds
    bool replay_ahead = true;  // replays may run while messages of other ranks are under way
  };
  // Where the rank's HTTP server listens: on TCP and on a socket of the file system.
  struct Server {
    int port = 9464;             // of local rank 0
    bool port_is_given = false;  // else the next free one will do
    std::string bind = "127.0.0.1";
    std::string socket_dir;  // empty: the user's folder for sockets
    std::string token_file;  // empty: over TCP nothing can be changed
  };
  // Of the files that each rank writes: as the environment has them.
  struct WrittenPaths {
    std::string report, text_file, perfetto;  // {rank} is still in them; absolute
  };
  // What the rank writes, and in which folders: absolute paths.
  struct Files {
    std::string report;     // {rank} is replaced; empty: none
    std::string text_file;  // the series are written here, {rank} replaced; empty: none
    std::string perfetto;   // of the last steps, at exit; {rank} too; empty: none
    WrittenPaths written;
    std::string spill_dir;  // empty: the system's folder for temporary files
    std::string trace_dir;  // recorded traces are written here; empty: none
  };
  // For `ebbtide fit`: after how many steps the process ends.
  struct EndAfter {
    std::string folder;      // in which the ranks wait for each other
    std::int64_t steps = 0;  // with a backward pass
  };

  Budget budget;
  Planning planning;
  Server server;
  Files files;
  std::string job_id;  // as it names a folder
  std::string log_level = "info";
  bool own_allocator = true;  // false leaves torch's CPU allocator in place (measuring only)
  bool asks_for_audit_cache = false;  // it is gone, and a line says so
  std::optional<EndAfter> end_after;  // the process ends where the next step begins

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

struct HostBytes {
  std::int64_t machine = 0;
  std::optional<std::int64_t> group_limit = std::nullopt;  // of the control groups
  std::int64_t reachable = INT64_MAX;                      // by one rank, as it is now
};
// A line where a budget is larger than the machine's memory, its control group's limit, or what the
// rank can have now; empty where it is not.
std::string aboveMemory(std::int64_t budget_bytes, const HostBytes& host);

// Of usableMemoryBytes(), what values of one rank's GPU may take: all ranks of it have as much, and
// leave a fifth.
std::int64_t hostShareBytes(int local_world_size);
using scheduler::formatBytes;

}  // namespace ebbtide::plugin
