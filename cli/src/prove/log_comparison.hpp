// LogComparison: where the parameters of two runs first differ, and how long their steps took.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "prove/proof_log.hpp"

namespace ebbtide::cli {

using RunLogs = std::vector<ProofLog>;  // of one run, as readProofLogs() gives them

struct Difference {
  enum class What : std::uint8_t {
    kParameters,  // other bytes
    kMissing,     // one of the runs made no such update
    kUnread,      // no parameter could be read
    kProcesses,   // the runs train in different numbers of processes; no update is meant
  };

  What what = What::kParameters;
  std::int64_t update = 0;  // from 1
  std::string process;      // "rank 1"
};

// The earliest one over all processes; nothing where all updates of both runs agree.
std::optional<Difference> firstDifference(const RunLogs& one, const RunLogs& other);

// "update 7 on rank 1 differs"
std::string describe(const Difference& difference);

// That each process made; 0: there is no process.
std::int64_t updatesOfAll(const RunLogs& logs);

// Of the updates from this one (2: all that have a time) in all processes; nothing for fewer than
// three.
std::optional<double> medianSeconds(const RunLogs& run, std::int64_t from_update);

}  // namespace ebbtide::cli
