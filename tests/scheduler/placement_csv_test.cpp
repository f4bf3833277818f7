#include "ebbtide/scheduler/placement_csv.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "ebbtide/scheduler/placement_validator.hpp"
#include "mutations.hpp"

namespace ebbtide::scheduler {
namespace {

std::string problem(const std::string& text) {
  try {
    placementFromCsv(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(PlacementCsv, TakesColumnsInAnyOrder) {
  const PlacementTable table = placementFromCsv("size,note,upper,id,lower\n64,x y,9,conv,-3\n");
  ASSERT_EQ(table.problem.buffers.size(), 1u);
  EXPECT_EQ(table.problem.buffers[0].lower, -3);
  EXPECT_EQ(table.problem.buffers[0].upper, 9);
  EXPECT_EQ(table.problem.buffers[0].bytes, 64);
  EXPECT_EQ(table.ids[0], "conv");
}

TEST(PlacementCsv, AddsAColumnAndKeepsTheRest) {
  EXPECT_EQ(toCsv(placementFromCsv("id,lower,upper,size,note\n\"a, \"\"b\"\"\",0,1,2,\n"), {7}),
            "id,lower,upper,size,note,offset\n\"a, \"\"b\"\"\",0,1,2,,7\n");
  EXPECT_EQ(placementFromCsv("id,lower,upper,size\n\"a, \"\"b\"\"\",0,1,2\n").ids[0], "a, \"b\"");
}

TEST(PlacementCsv, ReplacesTheColumnThatThereWas) {
  EXPECT_EQ(toCsv(placementFromCsv("id,offset,lower,upper,size\na,old,0,1,2\n"), {7}),
            "id,offset,lower,upper,size\na,7,0,1,2\n");
}

TEST(PlacementCsv, KeepsLineEnds) {
  EXPECT_EQ(toCsv(placementFromCsv("id,lower,upper,size\r\na,0,1,2\r\n\r\n"), {0}),
            "id,lower,upper,size,offset\r\na,0,1,2,0\r\n");
  EXPECT_EQ(toCsv(placementFromCsv("\xEF\xBB\xBFid,lower,upper,size"), {}),
            "id,lower,upper,size,offset\n");
}

TEST(PlacementCsv, SaysWhatIsWrongAndWhere) {
  const std::string names = "id,lower,upper,size\n";
  EXPECT_EQ(problem(""), "line 1: the file is empty");
  EXPECT_EQ(problem("id,lower,size\n"),
            "line 1: no column upper; needed are id, lower, upper and size");
  EXPECT_EQ(problem("id,lower,upper,size,id\n"), "line 1: the column id comes twice");
  EXPECT_EQ(problem(names + "a,0,1,2\nb,0,1\n"), "line 3: 3 fields where the first line has 4");
  EXPECT_EQ(problem(names + "a,0,1,2\n\nb,0,1,2\n"), "line 3: 1 fields where the first line has 4");
  EXPECT_EQ(problem(names + "a,0,1,2\na,3,4,5\n"), "line 3: the id 'a' is that of line 2");
  EXPECT_EQ(problem(names + "a,0,1,2KiB\n"),
            "line 2: size '2KiB' is not a whole number of 64 bits");
  EXPECT_EQ(problem(names + "a,,1,2\n"), "line 2: lower '' is not a whole number of 64 bits");
  EXPECT_EQ(problem(names + "a,0,9223372036854775808,2\n"),
            "line 2: upper '9223372036854775808' is not a whole number of 64 bits");
  EXPECT_EQ(problem(names + "\"a,0,1,2\n"), "line 2: a quote is not closed");
  EXPECT_EQ(problem(names + "a\"b\",0,1,2\n"), "line 2: a quote within a field that is not quoted");
  EXPECT_EQ(problem(names + "\"a\"b\"c\",0,1,2\n"), "line 2: text after a closing quote");
  EXPECT_EQ(problem(names + "a,0,1,2\nb,5,5,2\n"),
            "line 3: the buffer has an upper end that is not above the lower one");
  EXPECT_EQ(problem(names + "a,0,1,-2\n"), "line 2: the buffer has a negative size");
}

// Whatever the file holds: a problem that can be placed, or a line that is wrong.
TEST(PlacementCsv, StandsDamagedFiles) {
  const std::string whole =
      "id,lower,upper,size,\"no, te\"\r\n0,0,4,16,\"x\"\r\n\"b\"\"c\",2,6,24,\r\nd,-5,8,8,y\r\n";
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 4'000; ++seed) {
    const std::string text = Mutations(seed).apply(whole);
    try {
      const PlacementTable table = placementFromCsv(text);
      const Placement placement = place(table.problem);
      EXPECT_EQ(validate(table.problem, placement).value_or(""), "") << text;
      const PlacementTable again = placementFromCsv(toCsv(table, placement.offsets));
      EXPECT_EQ(again.ids, table.ids) << text;
      ++accepted;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 5), "line ") << text;
    }
  }
  EXPECT_GT(accepted, 40);
  EXPECT_LT(accepted, 4'000);
}

}  // namespace
}  // namespace ebbtide::scheduler
