#include "base/chunked_list.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace ebbtide::plugin {
namespace {

TEST(ChunkedList, ElementsStayWhereTheyAre) {
  ChunkedList<int> list;
  std::vector<int*> places;
  for (int i = 0; i < 1000; ++i) places.push_back(&list.emplace_back(i));
  EXPECT_EQ(list.size(), 1000u);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(places[i], &list[i]);
    EXPECT_EQ(list[i], i);
  }
  int next = 0;
  for (const int one : list) EXPECT_EQ(one, next++);
  EXPECT_EQ(next, 1000);
  EXPECT_EQ(list.at(999), 999);
  EXPECT_THROW(list.at(1000), std::out_of_range);
}

// At the border of a chunk, too: the 65th goes and comes.
TEST(ChunkedList, TheLastElementGoesAndAnotherComes) {
  ChunkedList<std::unique_ptr<int>> list;
  for (int i = 0; i < 65; ++i) list.push_back(std::make_unique<int>(i));
  for (int round = 0; round < 3; ++round) {
    list.pop_back();
    EXPECT_EQ(list.size(), 64u);
    EXPECT_EQ(*list[63], 63);
    list.push_back(std::make_unique<int>(100 + round));
    EXPECT_EQ(*list[64], 100 + round);
  }
}

TEST(ChunkedList, DestroysEachElementOnce) {
  const auto owned = std::make_shared<int>(0);
  {
    ChunkedList<std::shared_ptr<int>> list;
    for (int i = 0; i < 200; ++i) list.emplace_back(owned);
    list.pop_back();
    EXPECT_EQ(owned.use_count(), 200);  // 199, and this one
  }
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(ChunkedList, TheNextOneHasTheMemoryOfTheLast) {
  struct OfThisTest {
    int number = 0;
  };
  const OfThisTest* first = nullptr;
  {
    ChunkedList<OfThisTest> list;
    first = &list.emplace_back();
  }
  ChunkedList<OfThisTest> next;
  EXPECT_EQ(&next.emplace_back(), first);
  EXPECT_EQ(next[0].number, 0);
}

}  // namespace
}  // namespace ebbtide::plugin
