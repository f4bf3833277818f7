#include "plan/kept_graphs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace ebbtide::plugin {
namespace {

using Values = std::vector<ValueId>;

constexpr ValueId kMany = KeptGraphs::Asker::kMany;

TEST(KeptGraphs, APassMayComeOnceAGraphWasKept) {
  KeptGraphs graphs;
  graphs.beginUnpack(false);
  EXPECT_FALSE(graphs.mayRunAgain(false));
  graphs.beginUnpack(true);
  EXPECT_TRUE(graphs.keepsNow());
  EXPECT_TRUE(graphs.mayRunAgain(false));
  graphs.beginUnpack(false);  // another graph, or the last time of this one: nobody knows
  EXPECT_FALSE(graphs.keepsNow());
  EXPECT_TRUE(graphs.mayRunAgain(false));
}

// The plan knows passes through kept graphs: what is not kept any more is at its last one.
TEST(KeptGraphs, OfPassesThatThePlanKnowsNoneComesAfterTheLast) {
  KeptGraphs graphs;
  graphs.beginUnpack(true);
  EXPECT_TRUE(graphs.mayRunAgain(true));
  graphs.beginUnpack(false);
  EXPECT_FALSE(graphs.mayRunAgain(true));
  graphs.addLeftOver(1);  // but for a use that was to be released by now
  EXPECT_TRUE(graphs.mayRunAgain(true));
  graphs.addLeftOver(-1);
  EXPECT_FALSE(graphs.mayRunAgain(true));
}

// 0 ─► 1 ─► 2 and 0 ─► 3; 4 is read by nothing.
TEST(KeptGraphs, AValueIsAskedForByWhatIsSavedBehindIt) {
  KeptGraphs graphs;
  graphs.addOp(Values{0}, Values{1});
  graphs.addOp(Values{1}, Values{2});
  graphs.addOp(Values{}, Values{});  // it may not run again
  graphs.addOp(Values{0}, Values{3});
  EXPECT_EQ(graphs.nextOp(), 4);
  const auto askerOf = [&](ValueId id, const std::set<ValueId>& saved) {
    return graphs.askerOf(id, [&saved](ValueId value) { return saved.contains(value); });
  };
  EXPECT_FALSE(askerOf(0, {}).any);
  EXPECT_FALSE(askerOf(0, {0}).any);  // itself is no reader
  EXPECT_EQ(askerOf(0, {2}).value, 2);
  EXPECT_EQ(askerOf(0, {2, 3}).value, 3);  // the nearest
  EXPECT_EQ(askerOf(1, {2, 3}).value, 2);
  EXPECT_FALSE(askerOf(1, {3}).any);
  EXPECT_FALSE(askerOf(4, {1, 2, 3}).any);
}

// A chain of 300 with nothing saved: after 256 values nobody looks further.
TEST(KeptGraphs, WhatIsReadByTooManyIsAskedFor) {
  KeptGraphs graphs;
  for (ValueId id = 0; id < 300; ++id) graphs.addOp(Values{id}, Values{id + 1});
  const auto none = [](ValueId) { return false; };
  const KeptGraphs::Asker asker = graphs.askerOf(0, none);
  EXPECT_TRUE(asker.any);
  EXPECT_EQ(asker.value, kMany);
  EXPECT_FALSE(graphs.askerOf(50, none).any);  // 250 behind it
}

TEST(KeptGraphs, WhatIsHeldIsLookedAtAgainWhenItsAskerIsUnsaved) {
  KeptGraphs graphs;
  graphs.hold(7);
  EXPECT_EQ(graphs.takeDue(false), Values{7});
  EXPECT_EQ(graphs.takeDue(false), Values{});
  graphs.holdFor({true, 2}, 7);
  graphs.holdFor({true, 2}, 8);
  graphs.holdFor({true, 3}, 9);
  EXPECT_EQ(graphs.takeDue(false), Values{});
  graphs.noteUnsaved(1);
  EXPECT_EQ(graphs.takeDue(false), Values{});
  graphs.noteUnsaved(2);
  EXPECT_EQ(graphs.takeDue(false), (Values{7, 8}));
  graphs.noteUnsaved(2);
  EXPECT_EQ(graphs.takeDue(false), Values{});
}

TEST(KeptGraphs, AllIsDueWhenNoPassCanCome) {
  KeptGraphs graphs;
  graphs.hold(7);
  graphs.holdFor({true, 2}, 8);
  graphs.holdFor({true, kMany}, 9);
  Values due = graphs.takeDue(true);
  std::sort(due.begin(), due.end());
  EXPECT_EQ(due, (Values{7, 8, 9}));
  EXPECT_EQ(graphs.takeDue(true), Values{});
}

// Who only asks this need not take what is due.
TEST(KeptGraphs, ItSaysWhetherAnyValueIsWatched) {
  KeptGraphs graphs;
  EXPECT_FALSE(graphs.watchesAny());
  graphs.hold(7);
  EXPECT_TRUE(graphs.watchesAny());
  graphs.takeDue(false);
  EXPECT_FALSE(graphs.watchesAny());
  graphs.holdFor({true, 2}, 7);
  EXPECT_TRUE(graphs.watchesAny());
  graphs.takeDue(false);  // none is due yet
  EXPECT_TRUE(graphs.watchesAny());
  graphs.noteUnsaved(2);
  EXPECT_TRUE(graphs.watchesAny());
  graphs.takeDue(false);
  EXPECT_FALSE(graphs.watchesAny());
  graphs.holdFor({true, kMany}, 8);
  graphs.takeDue(true);
  EXPECT_FALSE(graphs.watchesAny());
  graphs.hold(9);
  graphs.forgetHeld();
  EXPECT_FALSE(graphs.watchesAny());
}

// n values behind each other; the last one is saved. A pass of n drops releases nothing: each value
// is looked at once, not in each drop.
TEST(KeptGraphs, APassThatReleasesNothingLooksAtEachValueOnce) {
  constexpr int kValues = 100;
  KeptGraphs graphs;
  for (ValueId id = 0; id < kValues; ++id) graphs.addOp(Values{id}, Values{kValues});
  int looked = 0;
  for (ValueId id = 0; id < kValues; ++id) {
    graphs.hold(id);
    for (const ValueId due : graphs.takeDue(false)) {
      ++looked;
      graphs.holdFor(graphs.askerOf(due, [](ValueId value) { return value == kValues; }), due);
    }
  }
  EXPECT_EQ(looked, kValues);
  graphs.noteUnsaved(kValues);
  EXPECT_EQ(graphs.takeDue(false).size(), static_cast<std::size_t>(kValues));
}

}  // namespace
}  // namespace ebbtide::plugin
