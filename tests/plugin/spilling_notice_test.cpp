#include "runtime/budget/spilling_notice.hpp"

#include <gtest/gtest.h>

#include "base/message_table.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kMib = 1 << 20;

// A plan's 107.125 MiB and 1 MiB beside it: 8.125 are missing of 108.125, which is told rounded up.
TEST(SpillingNotice, SaysWhatIsTooMuchAndWhatEndsIt) {
  SpillingNotice notice{.budget_bytes = 100 * kMib,
                        .predicted_peak_bytes = 107 * kMib + kMib / 8,
                        .enough_bytes = 108 * kMib + kMib / 8};
  const std::string begin =
      "the budget of 100.0 MiB is below what the best plan needs: 107.1 MiB, and 1.0 MiB beside "
      "it. So each step writes values to ";
  const std::string end = ". The plan fits into EBBTIDE_BUDGET=109MiB";
  EXPECT_EQ(describe(notice), begin + "disk for the 8.1 MiB that are missing" + end);
  notice.to_pinned_memory = true;
  notice.copied_bytes = 200 * kMib;  // the plan's own: they are written in 109 MiB, too
  EXPECT_EQ(describe(notice), begin +
                                  "pinned memory of the host for the 8.1 MiB that are missing, "
                                  "beside the 200.0 MiB that the plan writes" +
                                  end);
  ASSERT_NE(knownMessage(describe(notice)), nullptr);
  EXPECT_STREQ(knownMessage(describe(notice))->code, "EB10");
}

}  // namespace
}  // namespace ebbtide::plugin
