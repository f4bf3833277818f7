#include "memory/pristine_contents.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>

namespace ebbtide::plugin {
namespace {

using Contents = PristineContents<std::shared_ptr<int>>;

constexpr scheduler::OpId kAnyOp = std::numeric_limits<scheduler::OpId>::max() - 1;

TEST(PristineContents, NothingIsKeptAtFirst) {
  const Contents value;
  EXPECT_EQ(value.pristine(), nullptr);
  EXPECT_FALSE(value.isPristineFor(0));
  EXPECT_FALSE(value.mayBeWritten());
}

// Kept before op 5, which may read others.
TEST(PristineContents, WhatIsKeptIsWhatOpsBeforeTheWriteRead) {
  Contents value;
  const auto before = std::make_shared<int>(7);
  EXPECT_EQ(value.keep(before, 5), nullptr);
  EXPECT_EQ(value.pristine(), before);
  EXPECT_TRUE(value.isPristineFor(4));
  EXPECT_FALSE(value.isPristineFor(5));
  EXPECT_EQ(value.take(), before);
  EXPECT_EQ(value.take(), nullptr);
  EXPECT_FALSE(value.isPristineFor(4));  // it is not here
}

TEST(PristineContents, WhatTakesItsPlaceGivesItBack) {
  Contents value;
  const auto first = std::make_shared<int>(7), second = std::make_shared<int>(7);
  value.keep(first, 5);
  EXPECT_EQ(value.keep(second, 9), first);
  EXPECT_EQ(value.pristine(), second);
  EXPECT_TRUE(value.isPristineFor(8));
  EXPECT_FALSE(value.isPristineFor(kAnyOp));
}

TEST(PristineContents, ThatItMayBeWrittenIsNotForgotten) {
  Contents value;
  value.noteMayBeWritten();
  EXPECT_TRUE(value.mayBeWritten());
  value.keep(std::make_shared<int>(7), 5);
  value.take();
  EXPECT_TRUE(value.mayBeWritten());
}

TEST(PristineContents, WhatIsKeptIsHeldByNobodyElse) {
  Contents value;
  value.keep(std::make_shared<int>(7), 5);
  EXPECT_EQ(value.pristine().use_count(), 1);
}

}  // namespace
}  // namespace ebbtide::plugin
