#include "fit/value_search.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>

namespace ebbtide::cli {
namespace {

using Needs = std::function<std::int64_t(std::int64_t value)>;

// A value that needs 0 bytes fails when it is run.
ValueSearch searched(const std::string& text, std::int64_t budget, const Needs& needs) {
  ValueSearch search = ValueSearch::parse(text);
  while (const auto value = search.next(budget)) {
    const std::int64_t bytes = needs(*value);
    search.note({.value = *value, .fits = bytes > 0 && bytes <= budget, .needed_bytes = bytes});
    if (search.tried().size() > 200) throw std::runtime_error("it does not end");
  }
  return search;
}

std::vector<std::int64_t> triedBy(const ValueSearch& search) {
  std::vector<std::int64_t> values;
  for (const auto& one : search.tried()) values.push_back(one.value);
  return values;
}

TEST(ValueSearch, RunsAListAsItIs) {
  // 1000 + 10 · value within 1160: 16 and less.
  const auto search = searched("8,32,16,8,24", 1160, [](auto value) { return 1000 + 10 * value; });
  EXPECT_EQ(triedBy(search), (std::vector<std::int64_t>{8, 32, 16, 24}));
  EXPECT_EQ(search.largest(), 16);
  EXPECT_FALSE(search.isRange());
}

TEST(ValueSearch, FindsWhereEvenNeedsReachTheBudgetInFewRuns) {
  // 1000 + 10 · value within 5004: 400. First 1, 2; then double at most, or where the line crosses:
  // 4, …, 256, 400, and 401, which does not fit.
  const auto search = searched("1..100000", 5004, [](auto value) { return 1000 + 10 * value; });
  EXPECT_EQ(triedBy(search),
            (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64, 128, 256, 400, 401}));
  EXPECT_EQ(search.largest(), 400);
  EXPECT_TRUE(search.isRange());
}

TEST(ValueSearch, EndsAtTheEndsOfARange) {
  const auto even = [](std::int64_t value) { return value; };
  EXPECT_EQ(searched("8..64", 7, even).largest(), std::nullopt);
  EXPECT_EQ(triedBy(searched("8..64", 7, even)), (std::vector<std::int64_t>{8}));
  EXPECT_EQ(searched("8..64", 64, even).largest(), 64);
  EXPECT_EQ(searched("8..64", 1000, even).largest(), 64);
  EXPECT_EQ(searched("8..8", 1000, even).largest(), 8);
}

TEST(ValueSearch, TakesWhatFailsAsTooLarge) {
  const auto needs = [](std::int64_t value) { return value <= 21 ? value : 0; };
  EXPECT_EQ(searched("4..1000", 500, needs).largest(), 21);
}

// 1000 + 10 · value reaches 1360 at 36, but 50 fits: what one step needed is no word on the others.
TEST(ValueSearch, DoesNotCreepWhereNeedsAreRefuted) {
  ValueSearch search = ValueSearch::parse("8..100");
  while (const auto value = search.next(1360)) {
    search.note({.value = *value, .fits = *value <= 50, .needed_bytes = 1000 + 10 * *value});
  }
  EXPECT_EQ(search.largest(), 50);
  // Up to 36 as the line crosses, 37 as a proof, twice that, and halves of what is between.
  EXPECT_EQ(triedBy(search),
            (std::vector<std::int64_t>{8, 16, 32, 36, 37, 74, 55, 46, 50, 52, 51}));
}

// Whatever grows: the exact answer, in no more runs than doubling and halving need after the
// interpolations.
TEST(ValueSearch, FindsTheLargestThatFits) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto draw = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const std::int64_t first = draw(1, 50), last = first + draw(0, 5000);
    const double power = 0.2 * static_cast<double>(draw(1, 15));
    const std::int64_t base = draw(1, 2000), steps = draw(1, 40);
    const Needs needs = [=](std::int64_t value) {  // rising in steps
      return base +
             static_cast<std::int64_t>(std::pow(static_cast<double>(value / steps * steps), power));
    };
    const std::int64_t budget = needs(draw(first, last)) + draw(-3, 3);
    std::optional<std::int64_t> largest;
    for (std::int64_t value = first; value <= last && needs(value) <= budget; ++value) {
      largest = value;
    }
    const auto search =
        searched(std::to_string(first) + ".." + std::to_string(last), budget, needs);
    EXPECT_EQ(search.largest(), largest) << first << ".." << last << " within " << budget;
    EXPECT_LE(search.tried().size(), 2U * 13 + 8) << "of " << last - first + 1;
  }
}

TEST(ValueSearch, RefusesWhatIsNoListAndNoRange) {
  for (const char* text : {"", "a", "8,", ",8", "8;16", "0", "-8", "8..", "..8", "8...9", "8..4",
                           "1.5", "8, 16", "10000000000", "8..64,128"}) {
    EXPECT_THROW(ValueSearch::parse(text), std::invalid_argument) << text;
  }
}

TEST(ValueSearch, PutsTheValueWhereverItsPlaceIs) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(withValue({"a", "{}", "--x={},{}", "{"}, 12), (Words{"a", "12", "--x=12,12", "{"}));
  EXPECT_THROW(withValue({"python", "train.py"}, 8), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::cli
