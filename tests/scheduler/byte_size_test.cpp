#include "ebbtide/scheduler/byte_size.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace ebbtide::scheduler {
namespace {

std::string problem(const std::string& text) {
  try {
    parseSize("--budget", text, 1'000'000'000);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kHint = ". Forms: 30GiB, 24576MiB, 80%, a number of bytes";

TEST(ParseSize, ReadsEverySpelling) {
  const auto size = [](const char* text) { return parseSize("B", text, 1000); };
  EXPECT_EQ(size("4096"), 4096);
  EXPECT_EQ(size("3KiB"), 3 << 10);
  EXPECT_EQ(size("3Ki"), 3 << 10);
  EXPECT_EQ(size("24576MiB"), Bytes{24576} << 20);
  EXPECT_EQ(size("30Gi"), Bytes{30} << 30);
  EXPECT_EQ(size("2TiB"), Bytes{2} << 40);
  EXPECT_EQ(size("1.5GiB"), Bytes{3} << 29);
  EXPECT_EQ(size("80%"), 800);
  EXPECT_EQ(size("12.5%"), 125);
  EXPECT_EQ(size("100%"), 1000);
  for (const char* text : {"2gib", "2 GiB", " 2  Gi ", "2GIB", "2048 mib", "2gI"})
    EXPECT_EQ(size(text), Bytes{2} << 30) << text;
  EXPECT_EQ(size(" 80 % "), 800);
}

TEST(ParseSize, GivesWholeBytesOfAShare) {
  for (Bytes whole = 1; whole < 2000; ++whole) {
    EXPECT_EQ(parseSize("B", "100%", whole), whole);
    EXPECT_EQ(parseSize("B", "100%", (Bytes{1} << 60) - whole), (Bytes{1} << 60) - whole);
    for (Bytes percent = 7; percent * whole >= 100 && percent < 100; percent += 7) {
      EXPECT_EQ(parseSize("B", std::to_string(percent) + "%", whole), percent * whole / 100);
    }
  }
  EXPECT_EQ(parseSize("B", "0.7%", 1000), 7);
}

TEST(ParseSize, SaysWhatIsWrong) {
  EXPECT_EQ(problem("30GB"),
            "--budget=30GB: write 30GiB (30 × 2^30 bytes). Other forms: 24576MiB, 80%, a number of "
            "bytes");
  for (const char* text : {"1.5M", "1.5m", "1.5 mb", "1.5MB"}) {
    EXPECT_NE(problem(text).find(": write 1.5MiB (1.5 × 2^20 bytes). "), std::string::npos) << text;
  }
  EXPECT_EQ(problem("5QiB"), std::string("--budget=5QiB: the unit 'QiB' is unknown") + kHint);
  EXPECT_EQ(problem("101%"),
            std::string("--budget=101%: this is over 100 % of the memory") + kHint);
  EXPECT_EQ(problem("0GiB"), std::string("--budget=0GiB: this is not more than zero") + kHint);
  EXPECT_EQ(problem("99999999TiB"), std::string("--budget=99999999TiB: this is too large") + kHint);
  EXPECT_EQ(problem("0"), std::string("--budget=0: this is not more than zero") + kHint);
  EXPECT_EQ(problem("0.8"), "--budget=0.8: this is less than a byte; did you mean 80% or 0.8GiB?");
  EXPECT_NE(problem(" 0.005 ").find("did you mean 0.5% or 0.005GiB?"), std::string::npos);
  EXPECT_NE(problem("0.29").find("did you mean 29% or"), std::string::npos);  // 28.99… of doubles
  for (const char* text : {"1,5GiB", "1,5", "80,5%"})
    EXPECT_EQ(problem(text),
              "--budget=" + std::string(text) + ": the decimals follow a point" + kHint);
  for (const char* text :
       {"", "abc", " ", "-1", "+1", "1e9", "1E9", "0x10", "nan", "inf", "1nan"}) {
    EXPECT_EQ(problem(text), "--budget=" + std::string(text) + ": this is not a size" + kHint);
  }
  for (const char* text : {"1 2GiB", "1.2.3", "5%%", "1G i", "1Bi"}) {
    EXPECT_NE(problem(text), "") << text;
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
