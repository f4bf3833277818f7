#include "observe/run_trace.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../metrics/private_folder.hpp"
#include "ebbtide/metrics/whole_file.hpp"
#include "observe/trace_file.hpp"
#include "observe/traced_step.hpp"

namespace ebbtide::plugin {
namespace {

namespace fs = std::filesystem;
using Kind = TracedSpan::Kind;

class RunTraces : public testing::Test {
 protected:
  RunTraces() {
    Config config;
    config.files.trace_dir = folder_;
    config.rank = 3;
    config_.change(std::move(config));
  }

  // What was written, as soon as it is there; a trace that never comes is the test's time-out.
  static nlohmann::json read(const std::string& path) {
    while (!fs::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return nlohmann::json::parse(std::ifstream(path));
  }
  static std::vector<nlohmann::json> slices(const nlohmann::json& trace,
                                            const std::string& category) {
    std::vector<nlohmann::json> found;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] == "X" && event["cat"] == category) found.push_back(event);
    }
    return found;
  }
  static void runStep(RunTrace& trace, std::int64_t number) {
    trace.beginStep(number);
    TracedStep step(trace, number);
    step.noteBackward();
    step.end(true);
    trace.endStep(number);
  }

  const metrics::test::PrivateFolder own_;
  const std::string folder_ = own_.path();
  CurrentConfig config_;
  TrainedMemory memory_{config_};
  std::vector<std::string> warnings_;
  RunTrace trace_{config_, memory_, [this](const std::string& text) { warnings_.push_back(text); }};
};

TEST(RingBuffer, KeepsTheLastAndCountsTheRest) {
  RingBuffer<int> last(3);
  for (int i = 0; i < 5; ++i) last.add(i);
  std::vector<int> kept;
  last.forEach([&](int one) { kept.push_back(one); });
  EXPECT_EQ(kept, (std::vector{2, 3, 4}));
  EXPECT_EQ(last.lost(), 2u);
}

TEST_F(RunTraces, AreOfTheStepsThatWereAskedFor) {
  runStep(trace_, 1);
  trace_.beginStep(2);
  EXPECT_FALSE(trace_.on());
  const AskedSteps::Started started = trace_.start(2);
  ASSERT_EQ(started.error, "");
  EXPECT_EQ(started.from_step, 3);  // 2 runs
  EXPECT_FALSE(trace_.on());
  trace_.endStep(2);
  runStep(trace_, 3);
  EXPECT_TRUE(trace_.on());
  // One at a time: steps 3 and 4 are not over.
  EXPECT_EQ(trace_.start(1).error, "a trace of 2 steps from step 3 on is not written yet");
  runStep(trace_, 4);
  EXPECT_FALSE(trace_.on());
  runStep(trace_, 5);
  const nlohmann::json written = read(started.path);
  std::vector<std::int64_t> steps;
  for (const auto& step : slices(written, "step")) steps.push_back(step["args"]["step"]);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(slices(written, "phase").size(), 4u);  // forward and backward of each
  EXPECT_EQ(written["otherData"]["first_step"], 3);
  EXPECT_EQ(written["otherData"]["last_step"], 4);
  for (const auto& event : written["traceEvents"]) EXPECT_EQ(event["pid"], 3);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RunTraces, EndWithTheProcess) {
  const AskedSteps::Started started = trace_.start(100);
  runStep(trace_, 1);
  trace_.finish();
  EXPECT_EQ(slices(read(started.path), "step").size(), 1u);
  EXPECT_EQ(trace_.start(1).error, "training has ended");
}

TEST_F(RunTraces, ThatNeverBeganAreNotWritten) {
  const AskedSteps::Started started = trace_.start(1);
  trace_.finish();
  EXPECT_FALSE(fs::exists(started.path));
}

TEST_F(RunTraces, RefuseOtherNumbersOfSteps) {
  EXPECT_EQ(trace_.start(0).error, "steps is not a whole number from 1 to 100");
  EXPECT_EQ(trace_.start(101).error, "steps is not a whole number from 1 to 100");
}

TEST_F(RunTraces, AFolderThatIsGoneIsAWarning) {
  const AskedSteps::Started started = trace_.start(1);
  fs::remove_all(folder_);
  runStep(trace_, 1);
  trace_.finish();
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("could not be written to " + started.path), std::string::npos);
}

TEST_F(RunTraces, SaySoWhenSpansWereLost) {
  const AskedSteps::Started started = trace_.start(1);
  trace_.beginStep(1);
  for (std::size_t i = 0; i < TraceRecording::kMostSpans + 5; ++i)
    trace_.add({.kind = Kind::kRecompute, .begin_ns = steadyNanoseconds()});
  trace_.endStep(1);
  EXPECT_EQ(read(started.path)["otherData"]["lost_spans"], 5);
}

TEST_F(RunTraces, ThreadsMayAddWhileStepsPass) {
  trace_.beginStep(1);
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!over) {
        if (trace_.on()) trace_.add({.kind = Kind::kSpill, .begin_ns = steadyNanoseconds()});
        trace_.sampleMemory(true);
      }
    });
  }
  for (std::int64_t step = 2, started = 0; started < 5; ++step) {
    started += trace_.start(1).error.empty() ? 1 : 0;
    runStep(trace_, step);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  trace_.finish();
  for (const auto& file : fs::directory_iterator(folder_)) read(file.path().string());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RunTraces, AnyNameOfAnOpIsWritten) {
  TraceRecording recording;
  recording.spans.add({.kind = Kind::kRecompute, .op = "my::\"op\"\\\n\xff"});
  const std::string path = folder_ + "/names.json";
  metrics::WholeFile file(path);
  writeTraceFile(recording, {}, file);
  ASSERT_TRUE(file.keep());
  const auto written = slices(read(path), "recompute");
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0]["args"]["op"], "my::\"op\"\\\n\uFFFD");
}

TEST_F(RunTraces, TimesAreKinetos) {
  // 2026-11-23T00:00:00Z is 1795392000 s: 227 whole intervals of 7889238 s are 1790857026 s.
  EXPECT_EQ(kinetoBaseNs(1'795'392'000'000'000'000), 1'790'857'026'000'000'000);
  const auto now = [] {
    const std::chrono::duration<double, std::micro> unix_time =
        std::chrono::system_clock::now().time_since_epoch();
    return unix_time.count();
  };
  TraceRecording recording;
  const double before = now();
  recording.spans.add({.kind = Kind::kSpill,
                       .begin_ns = steadyNanoseconds(),
                       .end_ns = steadyNanoseconds() + 2'000'500});
  const double after = now();
  const std::string path = folder_ + "/times.json";
  metrics::WholeFile file(path);
  writeTraceFile(recording, {}, file);
  ASSERT_TRUE(file.keep());
  const nlohmann::json written = read(path);
  const nlohmann::json slice = slices(written, "copy").at(0);
  const double base = written["baseTimeNanoseconds"].get<double>() * 1e-3;
  const double at = slice["ts"].get<double>() + base;
  // A second more on both sides: the clock may be set meanwhile.
  EXPECT_GE(at, before - 1e6);
  EXPECT_LE(at, after + 1e6);
  EXPECT_GE(slice["dur"].get<double>(), 2000.5);
}

}  // namespace
}  // namespace ebbtide::plugin
