// Verdict: did a run under a budget give the parameters of plain runs, and what did it cost?
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "prove/log_comparison.hpp"
#include "report/run_report.hpp"

namespace ebbtide::cli {

// What the three runs left.
struct Evidence {
  RunLogs plain, again, bounded;
  std::vector<RunReport> reports;  // of the run under the budget
  std::int64_t asked_updates = 0;
};

struct Verdict {
  enum class Kind : std::uint8_t { kIdentical, kDiffers, kPlainDiffers, kUnjudged };

  Kind kind = Kind::kUnjudged;
  std::string problem;  // of kUnjudged: why
  std::int64_t updates = 0, asked_updates = 0;
  std::size_t processes = 0;
  std::optional<Difference> difference;
  std::optional<std::int64_t> plain_peak_bytes, mapped_peak_bytes;  // largest over ranks
  std::optional<double> plain_seconds, bounded_seconds;             // medians; of the quicker plain
  std::optional<std::int64_t> planned_from;  // the first update whose time is counted
  bool dropped_nothing = false;              // all steps fit the budget: the ratio is chance
  std::vector<std::string> notes;            // a sentence each

  std::optional<double> timeRatio() const;
  // "identical for 20 steps; 412 → 249 MiB; 1.04x; plain repeats itself: yes"
  std::string line() const;
  nlohmann::json toJson() const;
};

Verdict judge(const Evidence& evidence);

// "412 → 249 MiB", in GiB from 10 GiB on.
std::string shownChange(std::int64_t before, std::int64_t after);

}  // namespace ebbtide::cli
