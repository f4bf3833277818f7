// A rank that never trained: it answers every endpoint with figures made up from its number and the
// clock, so that clients can be tested without torch.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ebbtide/metrics/exposition_format.hpp"
#include "ebbtide/metrics/rank_metrics.hpp"
#include "ebbtide/metrics/routes.hpp"

namespace ebbtide::metrics::test {

// Ranks differ as those of real jobs do: of every eight the second has no budget (and no plan), the
// third is paused, the fourth has a step far slower than the others, the fifth was over its budget
// and is not to be without one, the sixth has not finished a step, the seventh has a GPU and a
// pipeline's stages.
class FabricatedRank {
 public:
  struct Place {
    int rank = 0;
    int world_size = 1;
    std::string job_id = {};
    std::string socket = {};
    std::string tcp = {};  // "127.0.0.1:9464"; empty: none
    double step_seconds = 0.5;
    int ops = 100;  // kinds of operators that its plan computes again
  };

  explicit FabricatedRank(Place place);
  FabricatedRank(const FabricatedRank&) = delete;
  FabricatedRank& operator=(const FabricatedRank&) = delete;

  Routes routes();  // refer to this
  void setTcp(const std::string& tcp) {
    const std::lock_guard lock(mutex_);
    place_.tcp = tcp;
  }

 private:
  using Json = nlohmann::json;

  bool is(int kind) const { return place_.rank % 8 == kind; }
  std::int64_t steps() const;
  double stepSeconds(std::int64_t step) const;
  std::int64_t peakBytes(std::int64_t step) const;
  std::int64_t plainBytes() const;
  double overheadAt(std::int64_t budget_bytes) const;

  std::string mode() const { return paused_ ? "paused" : budget_bytes_ ? "budget" : "measure"; }
  Json status();
  Json memory();
  Json totals();
  Json history();
  Json plan();
  Json planSummary();
  Json timeline();
  Json areas();
  Json gantt();
  Json curve();
  Json config();
  std::string metrics(Format format);
  void countSteps();

  Response setBudget(const Request& request);
  Response setPaused(const Request& request);
  Response trace(const Request& request);

  Place place_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::mutex mutex_;  // guards the rest; taken by routes
  std::optional<std::int64_t> budget_bytes_;
  bool paused_ = false;
  std::int64_t replans_ = 0;
  RankMetrics series_;
  std::vector<std::size_t> ops_;  // their numbers in the series
  std::int64_t counted_steps_ = 0;
  double counted_recompute_seconds_ = 0;
};

}  // namespace ebbtide::metrics::test
