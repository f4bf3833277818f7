// BudgetCheck: warns of a budget as it is written: of entries that are for nothing that is there,
// and of more bytes than the machine has. Torch-free; whoever has it guards it, where no thread is
// named.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/current_config.hpp"
#include "runtime/steps/step_summary.hpp"

namespace ebbtide::plugin {

class BudgetCheck {
 public:
  using Tell = std::function<void(const std::string& text)>;

  // The configuration must outlive it.
  BudgetCheck(const CurrentConfig& config, Tell warn) : config_(config), warn_(std::move(warn)) {}

  // Of entries for ranks that are not there: what launchers say is known at once. Once for each
  // number of ranks. Any thread.
  void checkRanks();
  // Of entries for other stages than these, which are all of the job's. Once.
  void checkStages(const std::vector<std::int32_t>& stages);
  // The process's so many-th step is over: which stages there are, where no messages tell.
  void noteStep(const StepSummary& summary, std::int64_t steps);
  // Of a budget in the host's memory that is beyond the machine's, the control group's, or the
  // bytes that the rank can have now; once for each. Any thread.
  void checkMemory(std::int64_t budget_bytes, std::int64_t reachable_bytes);

 private:
  const CurrentConfig& config_;
  const Tell warn_;
  bool checked_stages_ = false, exchanges_messages_ = false;
  std::atomic<int> checked_ranks_{0};               // how many
  std::atomic<std::int64_t> checked_memory_of_{0};  // budget
};

}  // namespace ebbtide::plugin
