// Proof: a command's three runs, plain, under the budget and plain again, and what they left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/command_run.hpp"
#include "prove/proof_environment.hpp"
#include "prove/verdict.hpp"

namespace ebbtide::cli {

struct ProofRun : CommandRun {
  RunLogs logs;

  // A launcher may miss what its ranks would have done after their last update.
  bool failed() const;
  std::string summary() const;  // "plain run: 20 updates in 1 process, 12.30 s"
};

class Proof {
 public:
  struct Asked : CommandOptions {
    std::int64_t updates = 20;
  };

  // Throws std::invalid_argument: there is no budget, it is none, or the folder cannot be used.
  Proof(Asked asked, const Interrupts& interrupts);

  // The last one of those that were needed: after one that failed, or made no update, there is no
  // other. Each is told on stderr when it has ended.
  const ProofRun& run();
  const std::vector<ProofRun>& runs() const { return runs_; }
  const RunFolder& folder() const { return folder_; }

  bool isComplete() const { return runs_.size() == 3 && !runs_.back().failed(); }
  Evidence evidence() const;

 private:
  ProofRun runOnce(const std::string& name, const std::string& folder, bool plain) const;

  const Asked asked_;
  const Interrupts& interrupts_;
  const Environment own_;
  const RunFolder folder_;
  std::vector<ProofRun> runs_;
};

}  // namespace ebbtide::cli
