#include "memory/saved_tensors.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;
using scheduler::UseId;

struct View {
  int part = 0;
};

class SavedTensorsTest : public testing::Test {
 protected:
  SavedTensors<View> saved_;
  const View first_{0}, second_{1};
  const int graph_ = 0, other_graph_ = 0;  // their addresses are nodes'
};

TEST_F(SavedTensorsTest, AreNumberedInTheirOrder) {
  EXPECT_EQ(saved_.next(), 0);
  EXPECT_EQ(saved_.add(7, first_, {}), 0);
  EXPECT_EQ(saved_.add(kNone, second_, {}), 1);
  EXPECT_EQ(saved_.next(), 2);
  EXPECT_EQ(saved_.valueOf(0), 7);
  EXPECT_EQ(saved_.valueOf(1), kNone);
}

TEST_F(SavedTensorsTest, AreReleasedOnce) {
  const UseId use = saved_.add(7, first_, {});
  saved_.add(7, second_, {});
  EXPECT_TRUE(saved_.release(use));
  EXPECT_FALSE(saved_.release(use));
  EXPECT_EQ(saved_.live(), 2);  // until its value is seen to
  EXPECT_EQ(saved_.endOne(), 1);
  EXPECT_EQ(saved_.live(), 1);
  EXPECT_EQ(saved_.count(), 2);  // of all that were
}

// The second half of 7 is written: it is 8 from now on, which the use of the first half reads.
TEST_F(SavedTensorsTest, OfOtherPartsMoveOnToTheNextValue) {
  const UseId left = saved_.add(7, first_, {}), right = saved_.add(7, second_, {});
  const auto apart = saved_.where(std::vector<UseId>{left, right},
                                  [](const View& view) { return view.part != 1; });
  ASSERT_EQ(apart, std::vector<UseId>{left});
  saved_.moveTo(left, 8);
  EXPECT_EQ(saved_.valueOf(left), 8);
  EXPECT_EQ(saved_.valueOf(right), 7);
}

TEST_F(SavedTensorsTest, AreDetachedByTheirMakersResult) {
  const UseId result = saved_.add(7, first_, {&graph_, 1});
  const UseId other_result = saved_.add(7, first_, {&graph_, 0});
  const UseId of_another = saved_.add(7, first_, {&other_graph_, 1});
  const UseId of_nobody = saved_.add(7, first_, {});  // its node is none, its output 0
  const std::vector<UseId> all = {result, other_result, of_another, of_nobody};
  saved_.noteDetached(all, {&graph_, 2});  // a result that was not saved
  EXPECT_FALSE(saved_.anyDetached());
  saved_.noteDetached(all, {&graph_, 1});
  EXPECT_TRUE(saved_.anyDetached());
  EXPECT_TRUE(saved_.isDetached(result));
  EXPECT_FALSE(saved_.isDetached(other_result));
  EXPECT_FALSE(saved_.isDetached(of_another));
  saved_.noteDetached(all, {&graph_, 0});
  EXPECT_TRUE(saved_.isDetached(result));  // it stays so
  EXPECT_TRUE(saved_.isDetached(other_result));
  EXPECT_FALSE(saved_.isDetached(of_nobody));
}

TEST_F(SavedTensorsTest, CountWhatIsLeftOverByItsChange) {
  const UseId use = saved_.add(7, first_, {});
  EXPECT_EQ(saved_.setLeftOver(use, false), 0);
  EXPECT_EQ(saved_.setLeftOver(use, true), 1);
  EXPECT_EQ(saved_.setLeftOver(use, true), 0);
  EXPECT_TRUE(saved_.isLeftOver(use));
  EXPECT_EQ(saved_.setLeftOver(use, false), -1);
}

TEST_F(SavedTensorsTest, CountTheirVisits) {
  const UseId use = saved_.add(7, first_, {});
  ++saved_.visits(use);
  ++saved_.visits(use);
  EXPECT_EQ(std::as_const(saved_).visits(use), 2u);
}

TEST_F(SavedTensorsTest, AreTheTraces) {
  saved_.add(7, first_, {});
  saved_.add(3, first_, {});
  scheduler::Trace trace;
  saved_.addTo(trace);
  EXPECT_EQ(trace.use_value, (std::vector<scheduler::ValueId>{7, 3}));
}

}  // namespace
}  // namespace ebbtide::plugin
