#include "runtime/polishing_pace.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

using std::chrono::milliseconds;

std::chrono::nanoseconds used{};

TEST(PolishingPaceTest, CountsProcessorTimeFromEachBegin) {
  used = milliseconds(5000);
  PolishingPace pace([]() noexcept { return used; });
  pace.begin(milliseconds(2000));
  EXPECT_FALSE(pace.isOver());
  used = milliseconds(6999);
  EXPECT_FALSE(pace.isOver());
  used = milliseconds(7000);
  EXPECT_TRUE(pace.isOver());
  pace.begin(milliseconds(1));
  EXPECT_FALSE(pace.isOver());
  used = milliseconds(7001);
  EXPECT_TRUE(pace.isOver());
}

TEST(ProcessorTimeTest, OfAThreadIsPartOfTheProcess) {
  const auto before = ProcessorTime::ofThread();
  while (ProcessorTime::ofThread() == before) {
  }
  const auto thread = ProcessorTime::ofThread();
  EXPECT_GT(thread, before);
  EXPECT_GE(ProcessorTime::ofProcess(), thread);
}

}  // namespace
}  // namespace ebbtide::plugin
