#include "cuda/annotations.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ebbtide::plugin::cuda::test {
namespace {

class AnnotationsTest : public ::testing::Test {
 protected:
  void add(const std::string& name, c10::approx_time_t time = 0) {
    Annotations::Entry entry(0, time);
    entry.recordUserMetadata("name", name);
    annotations_.add(std::move(entry));
  }
  std::string names() {
    std::string all;
    for (const auto& entry : annotations_.entries([](c10::approx_time_t) { return 0; })) {
      all += entry.metadata_.at("name");
    }
    return all;
  }

  Annotations annotations_;
};

TEST_F(AnnotationsTest, OneIsKeptUntilMoreAreAskedFor) {
  add("a");
  add("b");
  EXPECT_EQ(names(), "b");
}

// torch.cuda.memory._record_memory_history(max_entries=0)
TEST_F(AnnotationsTest, ARingOfNoneKeepsOne) {
  annotations_.setMost(0, /*clear=*/true);
  add("a");
  add("b");
  EXPECT_EQ(names(), "b");
}

TEST_F(AnnotationsTest, TheLatestAreKeptOldestFirst) {
  annotations_.setMost(3, /*clear=*/false);
  for (const char* const name : {"a", "b"}) add(name);
  EXPECT_EQ(names(), "ab");
  for (const char* const name : {"c", "d", "e"}) add(name);
  EXPECT_EQ(names(), "cde");
  add("f");
  add("g");
  EXPECT_EQ(names(), "efg");
}

TEST_F(AnnotationsTest, TheyAreClearedWhereThatIsAskedFor) {
  annotations_.setMost(2, false);
  for (const char* const name : {"a", "b", "c"}) add(name);
  annotations_.setMost(2, false);
  EXPECT_EQ(names(), "bc");
  annotations_.setMost(2, true);
  EXPECT_EQ(names(), "");
  for (const char* const name : {"d", "e", "f"}) add(name);
  EXPECT_EQ(names(), "ef");
}

TEST_F(AnnotationsTest, TimesAreThoseOfTheReader) {
  add("a", 7);
  const auto entries = annotations_.entries(
      [](c10::approx_time_t time) { return static_cast<c10::time_t>(time) * 10; });
  EXPECT_EQ(entries.at(0).time_.t_, 70);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
