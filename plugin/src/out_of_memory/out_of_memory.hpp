// OutOfMemory: why a request failed, in numbers, and in words; of the host's memory or a GPU's.
// Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebbtide/allocator/placed_resource.hpp"
#include "out_of_memory/live_shares.hpp"

namespace ebbtide::plugin {

// As it is to be set: whole MiB, never too few.
std::string asSetting(allocator::Bytes bytes);

// More lives when a step begins than when the budget was judged, and which budget does for that.
struct GrowthAdvice {
  static constexpr std::int64_t kMostSteps = 100;  // as many as L-BFGS's history has by default

  std::int64_t judged_step = 0;
  allocator::Bytes over_bytes = 0;      // that this step began with; 0: no more than that one
  allocator::Bytes per_step_bytes = 0;  // 0: it is not known to grow
  bool at_once = false;                 // per_step_bytes are those of one of the last few steps
  allocator::Bytes budget_bytes = 0;    // for such a step
  std::int64_t steps = 0;               // more that grow as much; 0: none has room
  allocator::Bytes budget_for_steps_bytes = 0;
};

// One sentence; empty: nothing is to be said.
std::string describe(const GrowthAdvice& advice);

struct OutOfMemory {
  using Bytes = allocator::Bytes;

  // What was asked for.
  struct Request {
    Bytes bytes = 0;
    std::string by = {};    // the op; empty: none is known
    Bytes block_bytes = 0;  // what it takes; kUnlimited: no block is so large
  };
  // Whose memory it is.
  struct Device {
    int index = -1;                  // of a GPU; -1: the host
    Bytes free_bytes = 0;            // of a GPU
    Bytes total_bytes = 0;           // of it, or of the machine
    bool total_is_of_group = false;  // that is the limit of a control group
  };
  // What the run may take, as it is set and as it could be.
  struct Budget {
    Bytes bytes = allocator::kUnlimited;  // kUnlimited: none
    Bytes margin_bytes = 0;               // of the budget, held by others
    Bytes smallest_feasible_bytes = 0;    // of the first steps; 0: not known
    Bytes overrun_limit_bytes = 0;        // it may be gone over up to here; 0: it may not
  };
  // What is mapped, and what of it is taken.
  struct Memory {
    Bytes mapped_bytes = 0;
    Bytes live_bytes = 0, awaiting_bytes = 0;  // awaiting: freed, in use by other streams
    Bytes stuck_bytes = 0;         // mapped, in no block, but of pages that no block can have whole
    Bytes free_bytes = 0;          // of the budget, or mapped where there is none, in no block
    Bytes largest_free_bytes = 0;  // the largest block that is to be had
    std::vector<LiveShares::Share> live_by_op = {};  // largest first; with the rest the sum is live
  };

  Request request = {};
  Device device = {};
  Budget budget = {};
  Memory memory = {};
  std::optional<allocator::PlanDeviation> first_deviation = {};  // of a step that was placed
  GrowthAdvice growth = {};
  std::string spill_error = {};  // why nothing can be written to the host; empty: it can
};

// 1 - largest free run / free bytes; 0 where nothing is free.
double fragmentation(const OutOfMemory& facts) noexcept;
// The smallest budget under which the request would have fitted beside what is live now.
allocator::Bytes budgetThatFits(const OutOfMemory& facts) noexcept;
// One line each: the request, the budget, what is live, what would do.
std::string describe(const OutOfMemory& facts);

// A budget that was set below what blocks hold by then, all free pages being gone.
std::string describeLoweredBudget(allocator::Bytes budget_bytes, allocator::Bytes margin_bytes,
                                  allocator::Bytes mapped_bytes);

}  // namespace ebbtide::plugin
