#include "ebbtide/metrics/recomputed_ops.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace ebbtide::metrics {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::string opName(int i) {
  return "aten::op" + std::to_string(i);
}

std::map<std::string, double> secondsOf(const RecomputedOps& ops) {
  std::map<std::string, double> seconds;
  for (const auto& [op, time] : ops.seconds())
    EXPECT_TRUE(seconds.emplace(op, time).second) << op << " is there twice";
  return seconds;
}

TEST(RecomputedOpsTest, AnOperatorHasOneNumber) {
  RecomputedOps ops;
  const std::size_t gelu = ops.numberOf("aten::gelu");
  EXPECT_NE(gelu, ops.numberOf("aten::mm"));
  EXPECT_EQ(gelu, ops.numberOf("aten::gelu"));
  EXPECT_NE(gelu, 0U);
}

// 30 operators take 1 to 30 s in the first step: those of 11 to 30 s get the 20 names, and the
// others are 1 + … + 10 = 55 s.
TEST(RecomputedOpsTest, TheMostExpensiveOnesOfAStepGetTheNames) {
  RecomputedOps ops;
  for (int i = 1; i <= 30; ++i) ops.add(ops.numberOf(opName(i)), i * kSecond);
  ops.noteStepEnd();
  const auto seconds = secondsOf(ops);
  EXPECT_EQ(seconds.size(), RecomputedOps::kMostNames + 1);
  EXPECT_DOUBLE_EQ(seconds.at("other"), 55);
  EXPECT_DOUBLE_EQ(seconds.at(opName(11)), 11);
  EXPECT_EQ(seconds.count(opName(10)), 0U);
}

TEST(RecomputedOpsTest, ANameIsKept) {
  RecomputedOps ops;
  for (int i = 1; i <= 20; ++i) ops.add(ops.numberOf(opName(i)), kSecond);
  ops.noteStepEnd();
  ops.add(ops.numberOf("aten::late"), 1000 * kSecond);
  ops.noteStepEnd();
  const auto seconds = secondsOf(ops);
  EXPECT_EQ(seconds.count("aten::late"), 0U);
  EXPECT_DOUBLE_EQ(seconds.at("other"), 1000);
  EXPECT_DOUBLE_EQ(seconds.at(opName(1)), 1);
}

// Of operators beyond those that are told apart only "other" knows.
TEST(RecomputedOpsTest, OperatorsWithoutANumberAreOther) {
  RecomputedOps ops;
  for (std::size_t i = 1; i < RecomputedOps::kMostOps; ++i)
    EXPECT_EQ(ops.numberOf(opName(static_cast<int>(i))), i);
  EXPECT_EQ(ops.numberOf("aten::one_more"), 0U);
  ops.add(0, 3 * kSecond);
  ops.add(RecomputedOps::kMostOps, 4 * kSecond);  // no number of ours
  EXPECT_DOUBLE_EQ(secondsOf(ops).at("other"), 7);
}

// Whatever replays when, no series falls or goes away, and after a step's end all time is in one.
TEST(RecomputedOpsTest, NoSeriesEverFalls) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    RecomputedOps ops;
    std::map<std::string, double> before;
    std::int64_t all = 0;
    for (int step = 0; step < 20; ++step) {
      const int replays = static_cast<int>(random() % 12);
      for (int i = 0; i < replays; ++i) {
        const std::int64_t duration = static_cast<std::int64_t>(random() % 1000) * kSecond;
        ops.add(ops.numberOf(opName(static_cast<int>(random() % 60))), duration);
        all += duration / kSecond;
      }
      for (const bool ended : {false, true}) {
        if (ended) ops.noteStepEnd();
        const auto now = secondsOf(ops);
        double sum = 0;
        for (const auto& [op, seconds] : now) sum += seconds;
        for (const auto& [op, seconds] : before) {
          ASSERT_EQ(now.count(op), 1U) << op << ", seed " << seed;
          ASSERT_GE(now.at(op), seconds) << op << ", seed " << seed;
        }
        ASSERT_LE(now.size(), RecomputedOps::kMostNames + 1);
        if (ended) {
          ASSERT_DOUBLE_EQ(sum, static_cast<double>(all)) << "seed " << seed;
        }
        before = now;
      }
    }
  }
}

}  // namespace
}  // namespace ebbtide::metrics
