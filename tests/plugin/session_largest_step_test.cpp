// Without a budget a session also records steps that come later and take more.
#include "controlled_session.hpp"

namespace ebbtide::plugin {
namespace {

using test::kMib;

class SessionLargestStepTest : public test::ControlledSession {
 protected:
  // A step whose peak is so high. Was it to be recorded?
  bool step(std::int64_t peak_bytes, bool may_record = true) {
    const StepStart start = session_->beginStep();
    allocator::DeviceMemory& memory = session_->trained().memory();
    const auto bytes = static_cast<std::size_t>(peak_bytes);
    void* const block = memory.allocate(bytes, allocator::Stream::kDefault);
    memory.deallocate(block);
    end(start, start.record_ops && may_record);
    return start.record_ops;
  }
  // Three steps that are recorded, and one that is not.
  void beginSteps() {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(step(kMib));
    EXPECT_FALSE(step(kMib));
  }
  std::int64_t smallestBytes() { return session_->budgets().verdict().told().smallestBytes(); }
};

TEST_F(SessionLargestStepTest, TheNextTwoAreRecorded) {
  begin();
  beginSteps();
  EXPECT_FALSE(step(64 * kMib));
  EXPECT_TRUE(step(64 * kMib));
  EXPECT_TRUE(step(kMib));
  EXPECT_FALSE(step(64 * kMib));  // one as large was recorded
  EXPECT_FALSE(step(kMib));
}

TEST_F(SessionLargestStepTest, WhatIsNeverRecordedIsEstimatedAtTheEnd) {
  begin();
  beginSteps();
  const std::int64_t before = smallestBytes();
  ASSERT_GT(before, 0);
  EXPECT_FALSE(step(64 * kMib));
  EXPECT_EQ(smallestBytes(), before);
  session_->shutdown();
  // 63 MiB more are needed, and the margin of the budget is no smaller.
  EXPECT_GE(smallestBytes(), before + 63 * kMib);
}

TEST_F(SessionLargestStepTest, WhatWasRecordedIsNotEstimated) {
  begin();
  beginSteps();
  const std::int64_t before = smallestBytes();
  step(64 * kMib);
  step(64 * kMib);
  session_->shutdown();
  EXPECT_EQ(smallestBytes(), before);  // the recorded trace needs what it did
}

TEST_F(SessionLargestStepTest, UnderABudgetNothingIsEstimated) {
  begin(4 * plain_bytes_ + 256 * kMib);
  for (int i = 0; i < 3; ++i) step(kMib);
  const std::int64_t before = smallestBytes();
  step(64 * kMib, /*may_record=*/false);
  session_->shutdown();
  EXPECT_EQ(smallestBytes(), before);
}

}  // namespace
}  // namespace ebbtide::plugin
