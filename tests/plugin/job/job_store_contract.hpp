// What every JobStore has to do. A test of one includes this and instantiates it with a function
// that makes a job of two ranks with a new store.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "../comes_true.hpp"
#include "job/job_store.hpp"

namespace ebbtide::plugin {

struct JobOfTwo {
  std::unique_ptr<JobStore> here, there;
  // Closes the store for both. Empty: it cannot be closed while it is used.
  std::function<void()> close;
};

struct JobStoreKind {
  std::string name;
  std::function<JobOfTwo()> make;
  friend void PrintTo(const JobStoreKind& kind, std::ostream* out) { *out << kind.name; }
};

class JobStoreContract : public testing::TestWithParam<JobStoreKind> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(comesTrue([&] { return job_.here->connected() && job_.there->connected(); }));
  }
  // Of the other rank: "soon".
  static std::optional<std::string> seen(JobStore& store, const std::string& key) {
    std::optional<std::string> value;
    comesTrue([&] { return (value = store.get(key)).has_value(); });
    return value;
  }
  static bool gone(JobStore& store, const std::string& key) {
    return comesTrue([&] { return !store.get(key); });
  }

  JobOfTwo job_ = GetParam().make();
};

TEST_P(JobStoreContract, WhatIsNotThereIsNothing) {
  EXPECT_EQ(job_.here->get("a"), std::nullopt);
  EXPECT_EQ(job_.here->get("a"), std::nullopt);  // nor has asking put it there
  EXPECT_EQ(job_.there->get("a"), std::nullopt);
}

TEST_P(JobStoreContract, BothSeeWhatOneSets) {
  job_.here->set("a/b", "one");
  EXPECT_EQ(job_.here->get("a/b"), "one");
  EXPECT_EQ(seen(*job_.there, "a/b"), "one");
  EXPECT_EQ(job_.there->get("a"), std::nullopt);  // no part of a key is one
}

TEST_P(JobStoreContract, TheLastValueCounts) {
  job_.here->set("a", "one");
  ASSERT_EQ(seen(*job_.there, "a"), "one");
  job_.there->set("a", "two");
  EXPECT_EQ(job_.there->get("a"), "two");
  EXPECT_TRUE(comesTrue([&] { return job_.here->get("a") == "two"; }));
}

TEST_P(JobStoreContract, ChangesOfARankComeInOrder) {
  for (int i = 0; i < 20; ++i) {
    const std::string key = "before" + std::to_string(i);
    job_.here->set(key, "x");
    job_.here->set("after" + std::to_string(i), "y");
    ASSERT_EQ(seen(*job_.there, "after" + std::to_string(i)), "y");
    EXPECT_EQ(job_.there->get(key), "x");
  }
}

// All 256 bytes, none, and as much as is allowed.
TEST_P(JobStoreContract, ValuesAreAnyBytes) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  for (const std::string& value :
       {all, std::string(), std::string("\0", 1), std::string(kMostStoredBytes, '\x80')}) {
    job_.here->set("a", value);
    job_.here->set("b" + std::to_string(value.size()), "");
    ASSERT_TRUE(seen(*job_.there, "b" + std::to_string(value.size())));
    EXPECT_TRUE(job_.there->get("a") == value) << value.size() << " bytes";
  }
}

TEST_P(JobStoreContract, WhatIsRemovedIsNotThere) {
  job_.here->set("a", "one");
  ASSERT_EQ(seen(*job_.there, "a"), "one");
  job_.there->remove("a");
  EXPECT_EQ(job_.there->get("a"), std::nullopt);
  EXPECT_TRUE(gone(*job_.here, "a"));
  job_.here->remove("a");  // again
  job_.here->remove("never");
  job_.here->set("a", "two");
  EXPECT_EQ(seen(*job_.there, "a"), "two");
}

// At most once more it may seem to work: what a rank sends is not acknowledged.
TEST_P(JobStoreContract, AClosedStoreThrows) {
  if (!job_.close) GTEST_SKIP() << "it cannot be closed";
  job_.here->set("a", "one");
  ASSERT_EQ(seen(*job_.there, "a"), "one");
  job_.close();
  EXPECT_ANY_THROW({
    job_.there->set("a", "two");
    job_.there->get("a");
  });
  EXPECT_ANY_THROW(job_.there->get("a"));
  EXPECT_ANY_THROW(job_.there->set("b", "two"));
  EXPECT_ANY_THROW(job_.there->remove("a"));
}

}  // namespace ebbtide::plugin
