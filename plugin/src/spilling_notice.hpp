// SpillingNotice: no plan fits the budget, so each step writes to the host: how much, and which
// budget ends that. Torch-free.
#pragma once

#include <cstdint>
#include <string>

namespace ebbtide::plugin {

struct SpillingNotice {
  using Bytes = std::int64_t;

  Bytes budget_bytes = 0;
  Bytes predicted_peak_bytes = 0;  // of the best plan
  Bytes enough_bytes = 0;          // the budget in which that plan writes nothing; more than it has
  bool to_pinned_memory = false;   // of a GPU's values; else to disk
};

// "the budget of 100.0 MiB is below what the best plan needs (107.1 MiB predicted, …), so each step
// writes about 8.1 MiB to disk. …": what the plan's peak is short of. Values are written whole.
std::string describe(const SpillingNotice& notice);

}  // namespace ebbtide::plugin
