#include "spilling_notice.hpp"

#include <fmt/format.h>

#include "ebbtide/scheduler/byte_size.hpp"
#include "out_of_memory.hpp"

namespace ebbtide::plugin {

using scheduler::formatBytes;

std::string describe(const SpillingNotice& notice) {
  return fmt::format(
      "the budget of {} is below what the best plan needs ({} predicted, {} beside it), so each "
      "step writes about {} to {}. To avoid that: EBBTIDE_BUDGET={}",
      formatBytes(notice.budget_bytes), formatBytes(notice.predicted_peak_bytes),
      formatBytes(notice.enough_bytes - notice.predicted_peak_bytes),
      formatBytes(notice.enough_bytes - notice.budget_bytes),
      notice.to_pinned_memory ? "pinned memory of the host" : "disk",
      asSetting(notice.enough_bytes));
}

}  // namespace ebbtide::plugin
