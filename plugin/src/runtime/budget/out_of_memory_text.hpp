// The text about the run in an error that memory is out. Torch-free.
#pragma once

#include <cstddef>
#include <string>

#include "out_of_memory/live_shares.hpp"
#include "runtime/budget/budget_controller.hpp"

namespace ebbtide::plugin {

// `by`: the op that asks; empty: none is known. From any thread, without waiting: what needs the
// guard is left out where another thread holds it.
std::string outOfMemoryText(const BudgetController& budget, std::size_t request_bytes,
                            const std::string& by, const LiveShares& live);

}  // namespace ebbtide::plugin
