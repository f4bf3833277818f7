#include "memory/unseen_writes.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;
using scheduler::OpId;

constexpr std::int64_t kAll = 4096;  // bytes of the value

TEST(UnseenWrites, ALookIsDueAtTheFirstRead) {
  UnseenWrites writes;
  EXPECT_TRUE(writes.isLookDue(3, 64, kAll));
  EXPECT_FALSE(writes.hasUnlookedReads());
  EXPECT_FALSE(writes.isLookDue(4, 64, kAll));
  EXPECT_TRUE(writes.hasUnlookedReads());
}

TEST(UnseenWrites, AnOpThatReadsAllLooksOnce) {
  UnseenWrites writes;
  for (const OpId op : {3, 4}) {
    EXPECT_TRUE(writes.isLookDue(op, kAll, kAll)) << op;
    EXPECT_FALSE(writes.isLookDue(op, kAll, kAll)) << op << ", another argument, or saves it";
    EXPECT_FALSE(writes.hasUnlookedReads()) << op;
  }
  EXPECT_TRUE(writes.isLookDue(kNone, kAll, kAll));  // between ops
}

// 64 rows of 64 bytes, read one after another, twice: the first, and then each time that 4,096
// bytes were read since: after rows 1 to 64, and 65 to 128.
TEST(UnseenWrites, ReadsOfPartsAreLookedAtAsOftenAsTheyCoverAll) {
  UnseenWrites writes;
  int looks = 0;
  for (OpId op = 0; op < 129; ++op) looks += writes.isLookDue(op, 64, kAll) ? 1 : 0;
  EXPECT_EQ(looks, 3);
  EXPECT_FALSE(writes.hasUnlookedReads());
}

TEST(UnseenWrites, TheFirstReplayLooksWhateverWasReadBefore) {
  UnseenWrites writes;
  EXPECT_TRUE(writes.isLookDue(3, kAll, kAll));
  EXPECT_TRUE(writes.isLookDueInReplay(64, kAll));
  EXPECT_FALSE(writes.isLookDueInReplay(64, kAll));
  EXPECT_TRUE(writes.isLookDueInReplay(kAll, kAll));
}

TEST(UnseenWrites, OpsThatReadBeforeAChangeAreTold) {
  UnseenWrites writes;
  EXPECT_FALSE(writes.changed());
  EXPECT_FALSE(writes.changedSince(3));
  writes.noteChanged(5);
  EXPECT_TRUE(writes.changed());
  EXPECT_TRUE(writes.changedSince(4));
  EXPECT_FALSE(writes.changedSince(5));
  writes.noteChanged(9);  // once more
  EXPECT_TRUE(writes.changedSince(5));
}

}  // namespace
}  // namespace ebbtide::plugin
