#include "terminal_text.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ebbtide::cli {
namespace {

TEST(TerminalText, TakesEscapeSequencesTheirPower) {
  EXPECT_EQ(forTerminal("\x1b[2Jgone\x07\r\n\x7f"), "?[2Jgone????");
  EXPECT_EQ(forTerminal("\xc2\x9b"
                        "31m"),
            "?31m");  // C1's CSI, one letter in UTF-8
}

TEST(TerminalText, KeepsWhatPeopleWrite) {
  EXPECT_EQ(forTerminal("/tmp/Übung/日本.json"), "/tmp/Übung/日本.json");
}

TEST(TerminalText, TakesOutWhatReordersOrHides) {
  // right-to-left override, zero-width space, byte order mark, line separator
  EXPECT_EQ(forTerminal("a\u202e b\u200b c\ufeff d\u2028"), "a? b? c? d?");
}

TEST(TerminalText, MarksEachByteThatIsNoUtf8) {
  EXPECT_EQ(forTerminal("a\xff\xc0\xaf"
                        "b"),
            "a???b");                             // none; overlong '/', two bytes
  EXPECT_EQ(forTerminal("\xed\xa0\x80"), "???");  // half a surrogate pair
  EXPECT_EQ(forTerminal("cut \xe6\x97"), "cut ??");
}

TEST(TerminalText, ColumnsAreAscii) {
  EXPECT_EQ(forColumns("Übung \x1b[1m"), "?bung ?[1m");
}

TEST(TerminalText, RandomBytesNeverControlATerminal) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += static_cast<char>(random() % 256);
    for (const unsigned char byte : forTerminal(text)) EXPECT_TRUE(byte >= 0x20 && byte != 0x7f);
    for (const unsigned char byte : forColumns(text)) EXPECT_TRUE(byte >= 0x20 && byte < 0x7f);
  }
}

}  // namespace
}  // namespace ebbtide::cli
