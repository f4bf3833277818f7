// RankRow: what one rank says of itself in /v1/status, as the verbs show it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "live/running_job.hpp"

namespace ebbtide::cli {

// Texts are forColumns(). What is not known is nothing, or empty.
struct RankRow {
  // How many, and what they took.
  struct Steps {
    std::optional<std::int64_t> count = {};
    std::optional<double> last_seconds = {}, median_seconds = {};
  };

  // peak: mapped, allocated where nothing is mapped by us; margin: what others hold of a GPU. The
  // budget bounds both together.
  struct Memory {
    std::optional<std::int64_t> budget_bytes = {}, live_bytes = {}, peak_bytes = {},
                                margin_bytes = {}, predicted_peak_bytes = {},
                                smallest_feasible_bytes = {};
  };

  // Of the last steps, the latest at the end.
  struct History {
    std::vector<double> step_seconds = {}, peak_bytes = {};
  };

  std::string job = {};      // as it is given to --job; empty with endpoints
  int rank = -1;             // -1: of a node that did not tell its ranks
  std::string where = {};    // the node's endpoint; empty on this one
  std::string problem = {};  // not empty: it did not answer, and the rest is not known
  std::string host = {}, state = {}, mode = {}, device = {}, planner = {};
  Steps steps = {};
  Memory memory = {};
  std::optional<std::int64_t> violations = {};
  std::optional<double> recompute_ratio = {};
  History history = {};

  static RankRow of(const RankAnswer& answer, const std::string& job = "");

  bool isLimited() const;
  // What the budget bounds, at its peak; without a budget the rank's own peak.
  std::optional<std::int64_t> boundedPeakBytes() const;
};

}  // namespace ebbtide::cli
