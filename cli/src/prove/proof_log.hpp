// ProofLog: what one process left of a run under EBBTIDE_PROOF: a checksum for each update.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ebbtide::cli {

struct ProofLog {
  struct Update {
    std::optional<double> seconds;  // since the last one, without the checksum's; not of the first
    std::string checksum;           // empty: no parameter could be read
  };

  std::optional<std::int64_t> rank;
  double began = 0;  // by the machine's clock, at the first update
  std::vector<Update> updates;
  std::map<std::string, std::int64_t> skipped;  // parameters that could not be read, by type
  bool ended = false;                           // it made all updates that were asked for
};

// Of a process that was killed the last line may be cut off. What follows a line that cannot be
// read, or is not the next update, is left out: the process seems to have ended there.
ProofLog parseProofLog(const std::string& text);

// Those of all processes that made an update: by rank, then by the time of the first one. So the
// processes of two runs stand in the same order.
std::vector<ProofLog> readProofLogs(const std::string& folder);

// "rank 3"; "process 2" of several without a rank. `place`: in the order above, from 0.
std::string nameOf(const ProofLog& log, std::size_t place, std::size_t processes);

}  // namespace ebbtide::cli
