#include "runtime/budget/spilling_notice.hpp"

#include <fmt/format.h>

#include "ebbtide/scheduler/byte_size.hpp"
#include "out_of_memory/out_of_memory.hpp"

namespace ebbtide::plugin {

using scheduler::formatBytes;

std::string describe(const SpillingNotice& notice) {
  return fmt::format(
      "the budget of {} is below what the best plan needs: {}, and {} beside it. So each step "
      "writes values to {} for the {} that are missing{}. The plan fits into EBBTIDE_BUDGET={}",
      formatBytes(notice.budget_bytes), formatBytes(notice.predicted_peak_bytes),
      formatBytes(notice.enough_bytes - notice.predicted_peak_bytes),
      notice.to_pinned_memory ? "pinned memory of the host" : "disk",
      formatBytes(notice.enough_bytes - notice.budget_bytes),
      notice.copied_bytes > 0
          ? fmt::format(", beside the {} that the plan writes", formatBytes(notice.copied_bytes))
          : "",
      asSetting(notice.enough_bytes));
}

}  // namespace ebbtide::plugin
