#include "observe/asked_steps.hpp"

#include <gtest/gtest.h>

#include <future>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "../metrics/failing_allocation.hpp"

namespace ebbtide::plugin {
namespace {

using metrics::test::endFailing;
using metrics::test::failAllocation;

// Longer than what strings hold without an allocation.
std::string pathOf(std::int64_t step) {
  return "/a/folder/with/a/long/name/step-" + std::to_string(step);
}

// Asks for one step and runs it: the path that is written. A writer that never writes is the test's
// time-out.
std::string recorded(AskedSteps& asked, std::int64_t step) {
  std::promise<std::string> written;
  const AskedSteps::Started started =
      asked.start(1, pathOf, [&written](const std::string& path) { written.set_value(path); });
  EXPECT_EQ(started.error, "");
  EXPECT_TRUE(asked.beginsAt(step));
  EXPECT_TRUE(asked.endsAt(step));
  return written.get_future().get();
}

// Until it has written, a further one is refused: so the last one has once this is over.
void awaitWriter(AskedSteps& asked, std::int64_t step) {
  for (;;) {
    const AskedSteps::Started started = asked.start(1, pathOf, [](const std::string&) {});
    if (started.error.empty()) break;
    std::this_thread::yield();
  }
  EXPECT_TRUE(asked.beginsAt(step));
  EXPECT_TRUE(asked.endsAt(step));
}

TEST(AskedSteps, WhereMemoryFailsNothingIsUnderWay) {
  int failed = 0;
  for (int number = 1;; ++number) {
    AskedSteps asked("trace");
    std::string error;
    failAllocation(number);
    try {
      error = asked.start(1, pathOf, [](const std::string&) {}).error;
    } catch (const std::bad_alloc&) {
      error = "not even for an error";
    }
    if (!endFailing()) break;
    ++failed;
    EXPECT_NE(error, "") << number;
    EXPECT_FALSE(asked.beginsAt(1)) << number;
    EXPECT_EQ(recorded(asked, 2), pathOf(2)) << number;  // the next who asks is served
  }
  EXPECT_GE(failed, 2);  // the path, and the thread
}

TEST(AskedSteps, WhatCannotBePreparedIsAnError) {
  AskedSteps asked("trace");
  const auto fails = [](std::int64_t) -> std::string { throw std::runtime_error("no folder"); };
  EXPECT_EQ(asked.start(1, fails, [](const std::string&) {}).error,
            "no trace can be recorded: no folder");
  EXPECT_EQ(recorded(asked, 1), pathOf(1));
}

TEST(AskedSteps, AWriterThatThrowsEndsNothing) {
  AskedSteps asked("trace");
  ASSERT_EQ(asked.start(1, pathOf, [](const std::string&) { throw std::bad_alloc(); }).error, "");
  EXPECT_TRUE(asked.beginsAt(1));
  EXPECT_TRUE(asked.endsAt(1));
  awaitWriter(asked, 2);
}

// Between the end's begin and its end: nothing is promised that nobody will write.
TEST(AskedSteps, OnceItClosesWhoeverAsksIsRefused) {
  AskedSteps asked("snapshot");
  std::string written;
  ASSERT_EQ(asked.start(2, pathOf, [&written](const std::string& path) { written = path; }).error,
            "");
  EXPECT_TRUE(asked.beginsAt(1));
  asked.close();
  EXPECT_EQ(asked.start(1, pathOf, [](const std::string&) {}).error, "training has ended");
  asked.finish();
  EXPECT_EQ(written, pathOf(1));  // it ran
  asked.finish();
}

// While it is being prepared, say, by another thread.
TEST(AskedSteps, WhatIsBegunWhileItClosesIsRefusedToo) {
  AskedSteps asked("snapshot");
  bool written = false;
  const auto closes = [&asked](std::int64_t step) {
    asked.close();
    return pathOf(step);
  };
  EXPECT_EQ(asked.start(1, closes, [&written](const std::string&) { written = true; }).error,
            "training has ended");
  EXPECT_FALSE(asked.beginsAt(1));
  asked.finish();
  EXPECT_FALSE(written);
}

}  // namespace
}  // namespace ebbtide::plugin
