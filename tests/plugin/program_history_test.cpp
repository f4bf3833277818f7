#include "runtime/programs/program_history.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

ProgramHistory after(const std::vector<std::uint64_t>& steps) {
  ProgramHistory history;
  for (const std::uint64_t step : steps) history.add(step);
  return history;
}

TEST(ProgramHistory, ExpectsNothingOfANewProgram) {
  EXPECT_EQ(after({}).last(), 0U);
  EXPECT_EQ(after({}).expected(), 0U);
  EXPECT_EQ(after({7}).expected(), 0U);
  EXPECT_EQ(after({7, 7, 8}).expected(), 0U);  // nothing has followed 8
  EXPECT_EQ(after({7, 7, 8}).last(), 8U);
}

TEST(ProgramHistory, ExpectsWhatFollowed) {
  EXPECT_EQ(after({7, 7}).expected(), 7U);
  EXPECT_EQ(after({7, 8, 7, 8}).expected(), 7U);
  EXPECT_EQ(after({7, 8, 7, 8, 7}).expected(), 8U);
}

// After 7 7 came 8, after a single 7 a second one: the longest stretch that is alike decides.
TEST(ProgramHistory, CountsATurn) {
  EXPECT_EQ(after({7, 7, 8, 7, 7}).expected(), 8U);
  EXPECT_EQ(after({7, 7, 8, 7, 7, 8, 7}).expected(), 7U);
}

// 7 was followed by 8, then by 9, with nothing alike before: the newest.
TEST(ProgramHistory, OfEqualPlacesTheNewestCounts) {
  EXPECT_EQ(after({7, 8, 7, 9, 7}).expected(), 9U);
}

// 8 9, 62 sevens, and an 8 again: with the 65th step the first 8 is forgotten, and that 9 came
// next.
TEST(ProgramHistory, ForgetsOldSteps) {
  ProgramHistory history = after({8, 9});
  for (std::size_t i = 2; i < ProgramHistory::kMost; ++i) history.add(7);
  history.add(8);
  EXPECT_EQ(history.expected(), 0U);
}

}  // namespace
}  // namespace ebbtide::plugin
