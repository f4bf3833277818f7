// FitRuns: runs of a command that end after some steps, measured or within a budget, and what they
// left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fit/recorded_run.hpp"
#include "launch/command_run.hpp"

namespace ebbtide::cli {

// All of the user's variables, but those that a run has of its own. `budget`: "" measures only.
Environment fitEnvironment(const Environment& own, const std::string& folder,
                           const std::string& budget, std::int64_t steps);

class FitRuns {
 public:
  struct Asked : CommandOptions {
    std::int64_t steps = 3;  // that are measured
  };

  // Throws std::invalid_argument: EBBTIDE=0, or the folder cannot be used.
  FitRuns(Asked asked, const Interrupts& interrupts);

  const std::string& budget() const { return budget_; }  // "": there is none
  std::string planner() const;                           // that a training would ask
  const RunFolder& folder() const { return folder_; }
  // `of`: names the value in the run's name, "" for none. Each is told on stderr when it has ended.
  RecordedRun measure(const std::vector<std::string>& command, const std::string& of) const;
  // The same in a budget, with as many steps as show whether it holds. `name`: of the run.
  RecordedRun inBudget(const std::vector<std::string>& command, const std::string& name,
                       const std::string& budget) const;

 private:
  RecordedRun runOnce(const std::vector<std::string>& command, const std::string& name,
                      const std::string& budget, std::int64_t steps) const;

  const Asked asked_;
  const Interrupts& interrupts_;
  const Environment own_;
  const std::string budget_;
  const RunFolder folder_;
};

}  // namespace ebbtide::cli
