#include "ebbtide/scheduler/shown_text.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/rank_budgets.hpp"

namespace ebbtide::scheduler {
namespace {

TEST(ShownTextTest, ShortTextIsAsItIs) {
  EXPECT_EQ(shownText("30GB"), "30GB");
  EXPECT_EQ(shownText(""), "");
  EXPECT_EQ(shownText("größe"), "größe");
}

TEST(ShownTextTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(shownText("a\nb\tc\rd\x1b[31m\x7f"), "a\\nb\\tc\\rd\\x1b[31m\\x7f");
}

TEST(ShownTextTest, LongTextIsCut) {
  EXPECT_EQ(shownText(std::string(200, 'x')), std::string(200, 'x'));
  EXPECT_EQ(shownText(std::string(201, 'x')), std::string(200, 'x') + "…");
}

// "ö" has two bytes: 3 of "aö" twice are "aö" and the first "a".
TEST(ShownTextTest, NoCharacterIsTornApart) {
  EXPECT_EQ(shownText("aöaö", 4), "aöa…");
  EXPECT_EQ(shownText("aöaö", 5), "aöa…");
}

template <typename Parse>
std::string messageOf(const Parse& parse) {
  try {
    parse();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

// The name and what is accepted take some 150 bytes beside the value's 200; a part of the value
// may be named once more.
TEST(ShownTextTest, MessagesOfParsersStayShort) {
  const std::string endless = std::string(5000, 'x') + "\n";
  const std::string messages[] = {
      messageOf([&] { parseSize("EBBTIDE_BUDGET", endless, 1); }),
      messageOf([&] { parseSize("EBBTIDE_BUDGET", "1" + endless, 1); }),
      messageOf([&] { RankBudgets::parse("EBBTIDE_BUDGET", endless); }),
      messageOf([&] { RankBudgets::parse("EBBTIDE_BUDGET", "," + endless); }),
      messageOf([&] { RankBudgets::parse("EBBTIDE_BUDGET", endless + "=1GiB"); }),
      messageOf([&] { RankBudgets::parse("EBBTIDE_BUDGET", "rank0=" + endless); })};
  for (const std::string& message : messages) {
    EXPECT_TRUE(message.starts_with("EBBTIDE_BUDGET")) << message;
    EXPECT_LT(message.size(), 700u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_EQ(messageOf([&] { planner(endless); }).find(std::string(201, 'x')), std::string::npos);
}

}  // namespace
}  // namespace ebbtide::scheduler
