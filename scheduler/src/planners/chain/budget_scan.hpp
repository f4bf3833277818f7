// The schedules of a chain program that fit a budget in the simulator: the program counts in slots
// of memory, so its own word is not enough.
#pragma once

#include <functional>
#include <memory>

#include "planners/chain/chain_program.hpp"
#include "planners/chain/chain_search.hpp"

namespace ebbtide::scheduler {

struct Resolution {
  std::int64_t slots;
  SlotRounding rounding;
};

using MakeProgram = std::function<std::shared_ptr<const ChainProgram>(
    const ChainCosts& costs, const SlotGrid& grid, Nanoseconds most_ns,
    const std::function<bool()>& late)>;

// Runs a program for each chain, shared by equal ones, and has the search consider those of their
// schedules whose peaks are at most `target_bytes` but nearly so.
void scanBudget(ChainSearch& search, Bytes target_bytes, Resolution resolution,
                const MakeProgram& make);

}  // namespace ebbtide::scheduler
