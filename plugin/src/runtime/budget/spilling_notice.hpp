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
  Bytes enough_bytes = 0;          // the budget that holds that plan; more than it has
  Bytes copied_bytes = 0;          // that the plan itself writes, in that budget too
  bool to_pinned_memory = false;   // of a GPU's values; else to disk
};

// "the budget of 100.0 MiB is below what the best plan needs: 107.1 MiB, and 1.0 MiB beside it. So
// each step writes values to disk for the 8.1 MiB that are missing. …"
std::string describe(const SpillingNotice& notice);

}  // namespace ebbtide::plugin
