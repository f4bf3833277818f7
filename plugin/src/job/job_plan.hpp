// JobPlan: which point of its curve each microbatch of each stage takes, on all ranks of a job.
// Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/rank_report.hpp"

namespace ebbtide::plugin {

struct JobPlan {
  struct Rank {
    Bytes peak_bytes = 0;              // predicted
    bool own = false;                  // its own plan is better; the points are not meant
    std::vector<std::int32_t> points;  // of each of its chunks, into the points of the class
    // Of each chunk: replays before its backward pass that do not lengthen the step, in units of
    // free_unit_ns.
    std::vector<std::int32_t> free;

    friend bool operator==(const Rank&, const Rank&) = default;
  };

  Nanoseconds makespan_ns = 0;
  Nanoseconds own_makespan_ns = 0;  // with each rank's own plan
  Nanoseconds bound_ns = 0;         // no plan within the budgets is quicker
  Nanoseconds free_unit_ns = 1;
  std::string method;
  std::vector<Rank> ranks;

  friend bool operator==(const JobPlan&, const JobPlan&) = default;
};

// The same text for the same plan.
std::string toText(const JobPlan& plan);
// Throws std::invalid_argument that says what is wrong with it.
JobPlan planFromText(std::string_view text);

// Why it is none for a rank that reported so; nothing if it is one.
std::optional<std::string> planProblem(const JobPlan& plan, const RankReport& own);

}  // namespace ebbtide::plugin
