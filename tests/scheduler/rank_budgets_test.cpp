#include "ebbtide/scheduler/rank_budgets.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

namespace ebbtide::scheduler {
namespace {

RankBudgets parsed(const std::string& text) {
  return RankBudgets::parse("EBBTIDE_BUDGET", text);
}

TEST(RankBudgets, OneSizeIsForAll) {
  EXPECT_EQ(parsed("30GiB").textOf(5), "30GiB");
  EXPECT_EQ(parsed("80%").textOf(0, {3}), "80%");
  EXPECT_FALSE(parsed("80%").dependsOnStages(0));
}

TEST(RankBudgets, ARankGoesBeforeItsStageAndThatBeforeTheDefault) {
  const RankBudgets budgets = parsed("default=80%,rank3=24GiB,stage0=70GiB,rank8-15=20GiB");
  EXPECT_EQ(budgets.textOf(0), "80%");
  EXPECT_EQ(budgets.textOf(0, {0}), "70GiB");
  EXPECT_EQ(budgets.textOf(3, {0}), "24GiB");
  EXPECT_EQ(budgets.textOf(8), "20GiB");
  EXPECT_EQ(budgets.textOf(15, {1}), "20GiB");
  EXPECT_EQ(budgets.textOf(16, {1}), "80%");
  EXPECT_TRUE(budgets.dependsOnStages(0));
  EXPECT_FALSE(budgets.dependsOnStages(3));
  EXPECT_TRUE(budgets.dependsOnStages(16));
}

TEST(RankBudgets, TheLastOfSeveralHoldsAndNobodyNeedsADefault) {
  const RankBudgets budgets = parsed("rank0-7=1GiB,rank4=2GiB,stage1=3GiB");
  EXPECT_EQ(budgets.textOf(4), "2GiB");
  EXPECT_EQ(budgets.textOf(5), "1GiB");
  EXPECT_EQ(budgets.textOf(9, {2, 1}), "3GiB");
  EXPECT_EQ(budgets.textOf(9), std::nullopt);
  EXPECT_EQ(parsed("stage0=1GiB,stage2-3=2GiB,stage1=3GiB").textOf(9, {0, 2}), "2GiB");
}

TEST(RankBudgets, EachFormMayBeARanks) {
  const RankBudgets budgets = parsed("Default=auto,rank3=-50%, STAGE1 = 60 % Peak ,RANK4=None");
  EXPECT_EQ(budgets.textOf(0), "auto");
  EXPECT_EQ(budgets.textOf(3), "-50%");
  EXPECT_EQ(budgets.textOf(0, {1}), "60 % Peak");
  EXPECT_EQ(budgets.textOf(4), std::nullopt);
  EXPECT_TRUE(budgets.sharesMemory());
  EXPECT_TRUE(budgets.namesRanks());
  EXPECT_FALSE(parsed("-50%").sharesMemory());
  EXPECT_FALSE(parsed("default=60%peak,stage1=1GiB").sharesMemory());
  EXPECT_FALSE(parsed("default=60%peak,stage1=1GiB").namesRanks());
  EXPECT_EQ(budgets.forNoRankOf(4), std::vector<std::string>{"rank4=None"});
}

TEST(RankBudgets, NoneIsABudgetOfNothing) {
  EXPECT_EQ(parsed("none").textOf(0), std::nullopt);
  const RankBudgets budgets = parsed("default=80%, rank3 = none ,stage1=none");
  EXPECT_EQ(budgets.textOf(3), std::nullopt);
  EXPECT_EQ(budgets.textOf(4, {1}), std::nullopt);
  EXPECT_EQ(budgets.textOf(4), "80%");
  EXPECT_EQ(parsed(" 24 gib ").textOf(0), "24 gib");
  EXPECT_TRUE(parsed(" None ").isNone() && parsed("default=none,rank1=NONE").isNone());
  EXPECT_FALSE(budgets.isNone());
}

// Ranks 0 to 3, stages 0, 2 and 4: what covers one of them is for something.
TEST(RankBudgets, EntriesForNothingThatIsThereAreTold) {
  using Texts = std::vector<std::string>;
  const RankBudgets budgets = parsed(
      "default=80%,rank3-9=1GiB,rank4=2GiB,rank6-7=3GiB,stage1=4GiB,stage1-3=5GiB,stage5-99=6Gi");
  EXPECT_EQ(budgets.forNoRankOf(4), (Texts{"rank4=2GiB", "rank6-7=3GiB"}));
  EXPECT_EQ(budgets.forNoRankOf(7), Texts{});
  EXPECT_EQ(budgets.forNoStageOf({0, 2, 4}), (Texts{"stage1=4GiB", "stage5-99=6Gi"}));
  EXPECT_TRUE(budgets.namesStages());
  EXPECT_FALSE(parsed("default=80%,rank3=1GiB").namesStages());
}

TEST(RankBudgets, WhatIsWrongIsNamed) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parsed(text);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("1,5GiB").find("the decimals follow a point"), std::string::npos);
  EXPECT_NE(refusal("default=80%,rank0=0.5")
                .find("rank0=0.5: this is less than a byte; did you mean "
                      "50% or 0.5GiB?"),
            std::string::npos);
  EXPECT_NE(refusal("rank 0=1GiB").find("unknown key 'rank 0'"), std::string::npos);
  EXPECT_NE(refusal("rank=1GiB").find("unknown key 'rank'"), std::string::npos);
  EXPECT_NE(refusal("node3=1GiB").find("unknown key 'node3'"), std::string::npos);
  EXPECT_NE(refusal("rank7-3=1GiB").find("unknown key 'rank7-3'"), std::string::npos);
  EXPECT_NE(refusal("rank-3=1GiB").find("unknown key"), std::string::npos);
  EXPECT_NE(refusal("rank3=1GiB,rank3=2GiB").find("names rank3 twice"), std::string::npos);
  EXPECT_NE(refusal("30GiB,rank3=1GiB").find("the entry '30GiB' without a key"), std::string::npos);
  EXPECT_NE(refusal("default=30GB").find("EBBTIDE_BUDGET: default=30GB: write 30GiB"),
            std::string::npos);
  EXPECT_NE(refusal("").find("this is not a size"), std::string::npos);
  EXPECT_NE(refusal("default=1GiB,").find("without a key"), std::string::npos);
}

TEST(RankBudgets, FewBytesAreAskedBack) {
  const auto asked = [](const std::string& text) -> std::string {
    try {
      parsed(text).refuseFewBytes("EBBTIDE_BUDGET");
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(asked("80"), "EBBTIDE_BUDGET=80: these are 80 B; did you mean 80%, 80MiB or 80GiB?");
  EXPECT_EQ(asked("80.5"),
            "EBBTIDE_BUDGET=80.5: these are 80 B; did you mean 80.5%, 80.5MiB or 80.5GiB?");
  EXPECT_EQ(asked("default=80%,rank1=4096"),
            "EBBTIDE_BUDGET=rank1=4096: these are 4.0 KiB; did you mean 4096MiB or 4096GiB?");
  for (const char* text : {"1048576", "512KiB", "none", "80%"}) EXPECT_EQ(asked(text), "") << text;
}

// Any text gives budgets or that one exception.
TEST(RankBudgets, AnyTextIsReadOrRefused) {
  std::mt19937 random(1);
  const std::vector<std::string> parts = {"default", "rank",       "stage", "3",    "-",   "=",
                                          ",",       "80%",        "1GiB",  "GiB",  "0x",  " ",
                                          "1e9",     "9999999999", "auto",  "peak", "-50%"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = random() % 10; n > 0; --n) text += parts[random() % parts.size()];
    try {
      const RankBudgets budgets = parsed(text);
      budgets.textOf(3, {0, 3});
      // As they were written, but for zeros before a number.
      for (const std::string& entry : budgets.forNoStageOf({})) parsed(entry);
    } catch (const std::invalid_argument&) {
    }
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
