#include "runtime/budget/out_of_memory_text.hpp"

#include <algorithm>

#include "config/config.hpp"
#include "out_of_memory/out_of_memory.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::size_t kMostShares = 5;  // of live memory, that are told

}  // namespace

std::string outOfMemoryText(const BudgetController& budget, std::size_t request_bytes,
                            const std::string& by, const LiveShares& live) {
  const TrainedMemory& trained = budget.run().trained;
  const allocator::Statistics memory = trained.memory().statistics();
  const std::int64_t usable = usableMemoryBytes();
  OutOfMemory facts{
      .request = {.bytes = static_cast<std::int64_t>(request_bytes),
                  .by = by,
                  // A small one may need a page.
                  .block_bytes = std::max(trained.memory().blockBytesFor(request_bytes),
                                          allocator::kUnitBytes)},
      .device = {.total_bytes = usable, .total_is_of_group = usable < machineMemoryBytes()},
      .budget = {.bytes = memory.budget_bytes,
                 .margin_bytes = memory.margin_bytes,
                 .smallest_feasible_bytes = budget.verdict().told().smallestBytes(),
                 .overrun_limit_bytes = trained.memory().overrunLimitBytes()},
      .memory = {.mapped_bytes = memory.mapped_bytes,
                 .live_bytes = memory.allocated_bytes,
                 .live_by_op = live.largest(kMostShares, memory.allocated_bytes)},
      .first_deviation = trained.memory().placed().firstDeviation(allocator::Stream::kDefault),
      .spill_error = trained.offloadFails() ? trained.spills().lastError() : ""};
  facts.memory.stuck_bytes =
      std::max<std::int64_t>(0, memory.mapped_bytes - memory.allocated_bytes - memory.cached_bytes);
  // Free pages can be joined to one block, with what the budget has left.
  const bool limited = memory.budget_bytes != allocator::kUnlimited;
  const std::int64_t room =
      limited ? std::max<std::int64_t>(0, trained.memory().budgetTracker().roomBytes()) : 0;
  facts.memory.largest_free_bytes = memory.cached_bytes + room;
  facts.memory.free_bytes = facts.memory.largest_free_bytes + facts.memory.stuck_bytes;
  // The thread may hold the guard itself.
  if (const auto held = budget.run().guard.tryHold()) budget.verdict().grown().addTo(*held, facts);
  return describe(facts);
}

}  // namespace ebbtide::plugin
