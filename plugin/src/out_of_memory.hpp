// OutOfMemory: why a request failed, in numbers, and in words; of the host's memory or a GPU's.
// Torch-free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebbtide/allocator/planned_resource.hpp"
#include "live_shares.hpp"

namespace ebbtide::plugin {

// As it is to be set: whole MiB, never too few.
std::string asSetting(allocator::Bytes bytes);

struct OutOfMemory {
  static constexpr int kMoreSteps = 100;  // as many as L-BFGS's history has by default

  using Bytes = allocator::Bytes;

  int device = -1;  // a GPU; -1: the host
  Bytes requested_bytes = 0;
  std::string requested_by = {};  // the op; empty: none is known
  Bytes block_bytes = 0;          // what the request takes; kUnlimited: no block is so large
  Bytes device_free_bytes = 0;    // of a GPU
  Bytes device_total_bytes = 0;   // of it, or of the machine
  Bytes budget_bytes = allocator::kUnlimited;  // kUnlimited: none
  Bytes margin_bytes = 0;                      // of the budget, held by others
  Bytes mapped_bytes = 0;
  Bytes live_bytes = 0, awaiting_bytes = 0;  // awaiting: freed, in use by other streams
  Bytes stuck_bytes = 0;         // mapped, in no block, but of pages that no block can have whole
  Bytes free_bytes = 0;          // of the budget, or mapped where there is none, in no block
  Bytes largest_free_bytes = 0;  // the largest block that is to be had
  std::vector<LiveShares::Share> live_by_op = {};  // largest first; with the rest their sum is live
  std::optional<allocator::PlanDeviation> first_deviation = {};  // of a step that was placed
  // What lives when a step begins grows by so much a step since that one (0: it does not), and the
  // budget for kMoreSteps of them.
  Bytes growth_per_step_bytes = 0;
  std::int64_t grows_since_step = 0;
  Bytes budget_for_growth_bytes = 0;
  Bytes smallest_feasible_bytes = 0;  // of the first steps; 0: not known
  std::string spill_error = {};       // why nothing can be written to the host; empty: it can
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
