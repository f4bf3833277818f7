#include "memory/value_readers.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

TEST(ValueReaders, ANewValueIsNeededByNobody) {
  const ValueReaders value;
  EXPECT_FALSE(value.isNeeded());
  EXPECT_FALSE(value.recomputable());
}

TEST(ValueReaders, UsesEndOneByOneOrTogether) {
  ValueReaders value;
  for (int use = 0; use < 3; ++use) value.beginUse();
  EXPECT_TRUE(value.endUses(2));
  EXPECT_EQ(value.liveUses(), 1);
  EXPECT_TRUE(value.endUses(0));  // none were apart
  EXPECT_TRUE(value.isNeeded());
  EXPECT_TRUE(value.endUses(1));
  EXPECT_FALSE(value.isNeeded());
}

TEST(ValueReaders, MoreUsesThanThereAreDoNotEnd) {
  ValueReaders value;
  EXPECT_FALSE(value.endUses(1));
  value.beginUse();
  EXPECT_FALSE(value.endUses(2));
  EXPECT_FALSE(value.endUses(-1));
  EXPECT_EQ(value.liveUses(), 1);
}

// 2 uses of what was written over, 1 of what is there now: 3 read that.
TEST(ValueReaders, UsesAreReadFromTheSuccessor) {
  ValueReaders old, successor;
  old.beginUse();
  old.beginUse();
  successor.beginUse();
  old.passUsesTo(successor);
  EXPECT_EQ(old.liveUses(), 0);
  EXPECT_EQ(successor.liveUses(), 3);
}

TEST(ValueReaders, AReaderNeedsIt) {
  ValueReaders input;
  input.beginReader();
  input.beginReader();
  EXPECT_TRUE(input.isNeeded());
  EXPECT_TRUE(input.endReader());
  EXPECT_EQ(input.readers(), 1);
  EXPECT_TRUE(input.endReader());
  EXPECT_FALSE(input.endReader());  // there is none
  EXPECT_EQ(input.readers(), 0);
  input.beginReader();  // and counts from nothing, not from less
  EXPECT_TRUE(input.isNeeded());
}

TEST(ValueReaders, AValueReadsItsInputsOnce) {
  ValueReaders value;
  EXPECT_FALSE(value.endRecomputable());
  EXPECT_TRUE(value.beginRecomputable());
  EXPECT_FALSE(value.beginRecomputable());
  EXPECT_TRUE(value.recomputable());
  EXPECT_FALSE(value.isNeeded());  // it reads, and is not read
  EXPECT_TRUE(value.endRecomputable());
  EXPECT_FALSE(value.recomputable());
}

TEST(ValueReaders, WhereNoOpRunsAgainUsesAreLeft) {
  ValueReaders value;
  value.beginUse();
  value.beginReader();
  value.beginRecomputable();
  value.forgetReplays();
  EXPECT_EQ(value.readers(), 0);
  EXPECT_FALSE(value.recomputable());
  EXPECT_EQ(value.liveUses(), 1);
}

}  // namespace
}  // namespace ebbtide::plugin
