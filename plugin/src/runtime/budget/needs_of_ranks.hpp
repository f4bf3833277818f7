// NeedsOfRanks: the smallest budgets that the other ranks of this machine name for themselves. One
// budget for all ranks has to be the largest of them. Torch-free. Thread rule: any thread.
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

  // Asks the ranks until all of them know, for half a second or so: a rank that is refused first is
  // a moment ahead of the others. Within ten seconds the same answers hold, for a program that
  // catches one refusal after the other. A rank that has no budget, knows no smallest one, or does
  // not answer, is not in it. Empty if the job has budgets by rank or stage. The caller holds no
  // lock that an answer needs: ranks that ask each other answer meanwhile.
  ByRank ask(const Config& config) noexcept;

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  ByRank told_;
  Clock::time_point told_at_{};  // none before
};

}  // namespace ebbtide::plugin
