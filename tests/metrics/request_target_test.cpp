#include "request_target.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace ebbtide::metrics {
namespace {

RequestTarget parsed(std::string_view text) {
  const RequestTargetResult result = parseTarget(text);
  EXPECT_EQ(result.problem, "") << text;
  return result.target;
}

TEST(RequestTarget, SplitsAndDecodes) {
  const RequestTarget target = parsed("/v1/st%61tus?rank=3&name=a+b%2B%26&empty=&alone&&");
  EXPECT_EQ(target.path, "/v1/status");
  const std::map<std::string, std::string> expected = {
      {"rank", "3"}, {"name", "a b+&"}, {"empty", ""}, {"alone", ""}};
  EXPECT_EQ(target.query, expected);
  EXPECT_EQ(parsed("/a+b").path, "/a+b");  // a space only in a query
  EXPECT_EQ(parsed("/?").query.size(), 0U);
  EXPECT_EQ(parsed("/?a=b=c").query.at("a"), "b=c");
}

TEST(RequestTarget, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "v1",
                           "*",
                           "http://localhost/metrics",
                           "localhost:80",
                           "/%",
                           "/%4",
                           "/%4g",
                           "/%g4",
                           "/%00",
                           "/a%0ab",
                           "/a%7f",
                           "/?x=%",
                           "/?x=%1",
                           "/?%zz=1",
                           "/?x=%0d%0a",
                           "/?a=1&a=2",
                           "/?a&a",
                           "/?a=1&%61=2",
                           "/\x01"}) {
    const RequestTargetResult result = parseTarget(text);
    EXPECT_FALSE(result.problem.empty()) << text;
    EXPECT_TRUE(result.target.path.empty()) << text;
  }
}

// What is encoded is decoded to what it was, whatever it was (but control characters).
TEST(RequestTarget, IsTheInverseOfItsEncoding) {
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    const auto word = [&random] {
      std::string text(random() % 12, ' ');
      for (char& c : text) {
        do {
          c = static_cast<char>(random());
        } while (static_cast<unsigned char>(c) < 0x20 || c == 0x7f);
      }
      return text;
    };
    const std::string name = word();
    const std::string value = word();
    const RequestTarget target =
        parsed("/v1/status?" + percentEncoded(name) + "=" + percentEncoded(value));
    ASSERT_EQ(target.query.size(), 1U);
    EXPECT_EQ(target.query.begin()->first, name);
    EXPECT_EQ(target.query.begin()->second, value);
  }
}

// Any bytes: either it is refused, or nothing of it is a control character and nothing grew.
TEST(RequestTarget, TakesAnyBytes) {
  std::mt19937 random(11);
  constexpr std::string_view kOften = "/%?&=+;aF09g#\x00\x7f";
  int accepted = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string text = "/";
    for (std::size_t left = random() % 20; left > 0; --left) {
      text += random() % 8 == 0 ? static_cast<char>(random()) : kOften[random() % kOften.size()];
    }
    const auto [target, problem] = parseTarget(text);
    if (!problem.empty()) continue;
    ++accepted;
    std::size_t size = target.path.size();
    std::string all = target.path;
    for (const auto& [name, value] : target.query) {
      size += name.size() + value.size();
      all += name + value;
    }
    EXPECT_LE(size, text.size());
    for (const char c : all) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace ebbtide::metrics
