#include "base/json_text.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace ebbtide::scheduler {
namespace {

std::string problem(const std::function<void()>& read) {
  try {
    read();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

std::string parseProblem(const std::string& text) {
  return problem([&] { parseJson(text, "file"); });
}

TEST(ParseJson, GivesTheTree) {
  const auto tree = parseJson(R"({"a":[1,-2,3.5,"t",true,null,{"b":[]}],"c":{}})", "file");
  EXPECT_EQ(tree.dump(), R"({"a":[1,-2,3.5,"t",true,null,{"b":[]}],"c":{}})");
  EXPECT_EQ(parseJson("7", "file"), 7);
}

TEST(ParseJson, NamesTheLine) {
  EXPECT_EQ(parseProblem("{\"a\":1,\n\"b\":}").substr(0, 14), "file: line 2: ");
  EXPECT_EQ(parseProblem("{\"a\":1,\n\n\"b\":[1,2").substr(0, 14), "file: line 3: ");
  EXPECT_EQ(parseProblem("{\n\"a\":NaN}").substr(0, 14), "file: line 2: ");
  EXPECT_EQ(parseProblem("{\n\"a\":1e999}"), "file: line 2: number overflow parsing '1e999'");
  EXPECT_EQ(parseProblem("{\"a\":1,\n\"a\":2}"), "file: line 2: the key 'a' comes twice");
  EXPECT_EQ(parseProblem("{}\n}").substr(0, 14), "file: line 2: ");
  EXPECT_NE(parseProblem(""), "");
  EXPECT_NE(parseProblem("\"\xff\""), "");  // not UTF-8
}

TEST(ParseJson, RefusesZeroBytes) {
  using namespace std::string_literals;
  EXPECT_EQ(parseProblem("{}\0{"s), "file: line 1: byte 2 is zero");
  EXPECT_EQ(parseProblem("[1,\n\0]"s), "file: line 2: byte 4 is zero");
}

TEST(ParseJson, RefusesDeepNesting) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(parseProblem(nested(64)), "");
  EXPECT_EQ(parseProblem(nested(65)), "file: line 1: nested deeper than 64");
  EXPECT_EQ(parseProblem(std::string(10'000'000, '[')), "file: line 1: nested deeper than 64");
  std::string objects;
  for (int i = 0; i < 1'000; ++i) objects += "{\"a\":\n";
  EXPECT_EQ(parseProblem(objects), "file: line 65: nested deeper than 64");
}

TEST(JsonObject, NamesTheField) {
  const auto tree = parseJson(
      R"({"n":3000000000,"f":1.5,"s":"t","l":[0,1,"2"],"o":{},"m":-1,"u":18446744073709551615})",
      "file");
  const JsonObject object(tree, "file: ops[7]");
  EXPECT_EQ(object.integer("n"), 3'000'000'000);
  EXPECT_EQ(object.integerOr("none", 4), 4);
  EXPECT_EQ(object.hash("u"), ~std::uint64_t{0});
  EXPECT_EQ(problem([&] { object.integer("none"); }), "file: ops[7]: 'none' is missing");
  EXPECT_EQ(problem([&] { object.idOr("n", 0); }),
            "file: ops[7]: n: 3000000000 is not a whole number of 32 bits");
  EXPECT_EQ(problem([&] { object.integer("u"); }),
            "file: ops[7]: u: 18446744073709551615 is not a whole number of 64 bits");
  EXPECT_EQ(problem([&] { object.integer("f"); }),
            "file: ops[7]: f: 1.5 is not a whole number of 64 bits");
  EXPECT_EQ(problem([&] { object.hash("m"); }),
            "file: ops[7]: m: -1 is not a whole number of 64 bits");
  EXPECT_EQ(problem([&] { object.ids("l"); }),
            "file: ops[7]: l[2]: \"2\" is not a whole number of 32 bits");
  EXPECT_EQ(problem([&] { object.numbers("l"); }), "file: ops[7]: l[2]: expected a number");
  EXPECT_EQ(problem([&] { object.list("o"); }), "file: ops[7]: o: expected a list");
  EXPECT_EQ(problem([&] { object.booleanOr("s", true); }),
            "file: ops[7]: s: expected true or false");
  EXPECT_EQ(problem([&] { object.textOr("n", ""); }), "file: ops[7]: n: expected a text");
  EXPECT_EQ(problem([&] {
              object.expectOnly({"n", "f"});
            }),
            "file: ops[7]: unknown key 'l'; known: n f");
  EXPECT_EQ(problem([&] { JsonObject(tree["l"], "file: l"); }),
            "file: l: expected an object, not a list");
}

}  // namespace
}  // namespace ebbtide::scheduler
