// RunSummary: what a run took, in the line that stands last. Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ebbtide::plugin {

struct RunSummary {
  using Bytes = std::int64_t;

  struct Outlook {
    Bytes budget_bytes = 0;                     // that would do; 0: not known
    std::optional<double> overhead_ratio = {};  // of its plan, to a step's time; nothing: not known
    bool spills = false;     // each step writes to the disk: how long is not known
    Bytes needed_bytes = 0;  // of the steps that the plan is of, where the budget is their smallest
  };

  std::int64_t steps = 0;
  double step_seconds = 0;                 // 0: not known
  std::optional<Bytes> budget_bytes = {};  // nothing: measured only
  Bytes peak_bytes = 0;                    // of what the allocator maps; 0: not known
  Bytes others_bytes = 0;                  // of a GPU, beside it: budgets bound both
  Bytes used_peak_bytes = 0;               // both at one moment, at most; 0: not known
  Bytes plain_peak_bytes = 0;              // without a plan; 0: not known
  Bytes activation_bytes = 0;              // 0: not known
  double recompute_share = 0;              // of the time in steps
  double copy_share = 0;                   // the same, of plans' copies to the host and back
  Bytes spilled_bytes = 0;                 // written to the host by steps, beside those copies
  std::int64_t violations = 0;             // of that budget
  Outlook half = {}, smallest = {};  // of the activations, and of all budgets; where there is none
};

// "ended after 60 steps of 98 ms: peak 249.0 MiB of the budget's 250.0 MiB, …"
std::string describe(const RunSummary& run);

struct RankPeak {
  std::int64_t bytes = 0;  // 0: not known
  std::int64_t steps = 0;  // that have ended
};

// Do the peaks of two ranks differ by more than 5 % of `whole_bytes`, the budget? The run of `own`
// has ended. Where `other` has ended fewer than half as many steps, a lower peak may still rise to
// the same: false. A higher one counts: it falls only where a budget is judged anew.
bool peaksDiffer(const RankPeak& own, const RankPeak& other, std::int64_t whole_bytes);

}  // namespace ebbtide::plugin
