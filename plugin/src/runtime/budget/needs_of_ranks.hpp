// NeedsOfRanks: the smallest budgets that the other ranks of this machine name for themselves. A
// budget for all ranks has to be the largest. Torch-free. Thread rule: any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

#include "config/config.hpp"

namespace ebbtide::plugin {

class NeedsOfRanks {
 public:
  using ByRank = std::map<int, std::int64_t>;  // bytes

  // Asks the ranks for about half a second, until each has told its budget. The rank that is
  // refused first is a moment ahead of the others. The answers hold for ten seconds, as a program
  // may catch many refusals. The result leaves out a rank that has no budget, knows no smallest
  // one, or does not answer. It is empty if the job has budgets by rank or stage. The caller holds
  // no lock that an answer needs, because ranks may ask each other.
  ByRank ask(const Config& config) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  ByRank told_;
  Clock::time_point told_at_{};  // none before
};

}  // namespace ebbtide::plugin
