// The text of recorded allocations, and the loops that benchmarks replay.
#include "allocation_trace.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <stdexcept>
#include <string>

namespace ebbtide::benchmarks {
namespace {

std::string errorOf(std::string_view text) {
  try {
    parseAllocationTrace(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// Replays a loop by its own rules; fails where a slot is used twice, or freed empty.
class Slots {
 public:
  explicit Slots(const ReplayLoop& loop) : loop_(loop) { turn(loop.before); }

  void once() {
    for (const auto& step : loop_.steps) turn(step);
    std::map<std::uint32_t, Bytes> carried;
    for (const ReplayLoop::Carry& carry : loop_.carries) {
      ASSERT_TRUE(live_.contains(carry.from));
      ASSERT_TRUE(carried.emplace(carry.to, live_[carry.from]).second);
      live_.erase(carry.from);
    }
    for (const auto& [slot, bytes] : carried) ASSERT_TRUE(live_.emplace(slot, bytes).second);
  }

  const std::map<std::uint32_t, Bytes>& live() const { return live_; }
  Bytes peak() const { return peak_; }

 private:
  void turn(const std::vector<ReplayLoop::Event>& events) {
    for (const ReplayLoop::Event& event : events) {
      ASSERT_LT(event.slot, loop_.slots);
      if (event.bytes == 0) {
        ASSERT_EQ(live_.erase(event.slot), 1U);
      } else {
        ASSERT_TRUE(live_.emplace(event.slot, event.bytes).second);
      }
      Bytes sum = 0;
      for (const auto& [slot, bytes] : live_) sum += bytes;
      peak_ = std::max(peak_, sum);
    }
  }

  const ReplayLoop& loop_;
  std::map<std::uint32_t, Bytes> live_;
  Bytes peak_ = 0;
};

TEST(AllocationTraceTest, ReadsWhatCameBeforeAndTheSteps) {
  const AllocationTrace trace = parseAllocationTrace(
      "alloc 7 100\nalloc 3 50\nfree 3\nstep\nalloc 9 4096\nfree 7\nstep\nfree 9\n");
  EXPECT_EQ(trace.blocks, (std::vector<Bytes>{100, 50, 4096}));
  ASSERT_EQ(trace.before.size(), 3U);
  EXPECT_EQ(trace.before[2].block, 1U);
  EXPECT_TRUE(trace.before[2].is_free);
  ASSERT_EQ(trace.steps.size(), 2U);
  EXPECT_EQ(trace.steps[0].size(), 2U);
  EXPECT_EQ(trace.steps[1][0].block, 2U);
}

TEST(AllocationTraceTest, NamesTheLineThatIsWrong) {
  EXPECT_EQ(errorOf("step\nalloc 1 8\nfree 2\n"), "line 3: no such block is live");
  EXPECT_EQ(errorOf("alloc 1 8\nfree 1\nfree 1\n"), "line 3: no such block is live");
  EXPECT_EQ(errorOf("alloc 1 8\nfree 1\nalloc 1 8\n"), "line 3: this block was there before");
  EXPECT_EQ(errorOf("alloc 1 0\n"), "line 1: a block without bytes");
  EXPECT_EQ(errorOf("alloc 1\n"), "line 1: no size");
  for (const char* word : {"", "-1", "+1", "01", "1 ", " 1", "0x1", "1.0", "9223372036854775808"}) {
    EXPECT_EQ(errorOf("alloc 1 " + std::string(word) + "\n"), "line 1: not a number") << word;
  }
  EXPECT_EQ(errorOf("step\r\n"), "line 1: neither alloc, free nor step");
  EXPECT_EQ(errorOf("\n"), "line 1: neither alloc, free nor step");
  EXPECT_EQ(errorOf("step\nalloc 1 8"), "line 2: the last line has no end");
  EXPECT_EQ(errorOf(""), "line 0: no step allocates anything");
  EXPECT_EQ(errorOf("alloc 1 8\nstep\nfree 1\n"), "line 3: no step allocates anything");
}

// 2^56 bytes may live at once, and not one more.
TEST(AllocationTraceTest, RefusesMoreBytesThanAnyMachineHas) {
  const std::string most = "step\nalloc 1 72057594037927936\n";
  EXPECT_EQ(errorOf(most), "");
  EXPECT_EQ(errorOf(most + "alloc 2 1\n"), "line 3: too many bytes");
  EXPECT_EQ(errorOf(most + "free 1\nalloc 2 1\n"), "");
}

// 1 (100 bytes) is freed, 2 takes its place; 3 (7) has no partner and is freed; 4 (50) was freed
// without a successor and comes back at the end. Most lives when the last one does: 100 + 100 + 50
// + 7.
TEST(AllocationTraceTest, ALoopEndsAsItBegan) {
  const AllocationTrace trace = parseAllocationTrace(
      "alloc 1 100\nalloc 4 50\nstep\nalloc 2 100\nalloc 3 7\nfree 1\nfree 4\n");
  const ReplayLoop loop = makeReplayLoop(trace, 1);
  EXPECT_EQ(loop.live_peak_bytes, 257);
  EXPECT_EQ(loop.allocations, 3);  // 2, 3, and 4 again
  Slots slots(loop);
  const auto at_begin = slots.live();
  for (int i = 0; i < 3; ++i) {
    slots.once();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_EQ(slots.live(), at_begin);
  }
}

TEST(AllocationTraceTest, ALoopMayLeaveSmallBlocksOut) {
  const AllocationTrace trace =
      parseAllocationTrace("step\nalloc 1 100\nalloc 2 99\nfree 1\nfree 2\n");
  const ReplayLoop loop = makeReplayLoop(trace, 100);
  EXPECT_EQ(loop.allocations, 1);
  EXPECT_EQ(loop.slots, 1U);
  EXPECT_EQ(loop.live_peak_bytes, 100);
}

// Random traces: each loop begins again where it began, and its peak is what a model counts.
TEST(AllocationTraceTest, RandomTracesMakeSoundLoops) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    std::vector<int> live;
    int next = 0;
    for (int line = 0; line < 60; ++line) {
      if (line == 20 || line == 40) text += "step\n";
      if (live.empty() || random() % 2 == 0 || line == 20) {
        text += "alloc " + std::to_string(next) + " " + std::to_string(1 + random() % 4) + "\n";
        live.push_back(next++);
      } else {
        std::swap(live[random() % live.size()], live.back());
        text += "free " + std::to_string(live.back()) + "\n";
        live.pop_back();
      }
    }
    const ReplayLoop loop = makeReplayLoop(parseAllocationTrace(text), 1);
    Slots slots(loop);
    const auto at_begin = slots.live();
    for (int i = 0; i < 3; ++i) {
      slots.once();
      ASSERT_FALSE(HasFatalFailure()) << text;
      ASSERT_EQ(slots.live(), at_begin) << text;
    }
    ASSERT_EQ(slots.peak(), loop.live_peak_bytes) << text;
  }
}

// Bytes changed, left out or doubled: it is refused with a line's number, or it is a sound trace.
TEST(AllocationTraceTest, DamagedTextIsRefusedOrSound) {
  const std::string whole = "alloc 1 100\nalloc 2 5000\nstep\nalloc 3 70\nfree 2\nstep\nfree 3\n";
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = whole;
    for (std::uint32_t damage = 1 + random() % 3; damage > 0 && !text.empty(); --damage) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, 1, "0123456789 \nalocfrestp"[random() % 22]);
          break;
        default:
          text.insert(at, whole.substr(random() % whole.size(), random() % 20));
          break;
      }
    }
    try {
      const ReplayLoop loop = makeReplayLoop(parseAllocationTrace(text), 1);
      const Slots slots(loop);
      ASSERT_FALSE(HasFatalFailure()) << text;
    } catch (const std::invalid_argument& error) {
      ++refused;
      ASSERT_EQ(std::string(error.what()).rfind("line ", 0), 0U) << text;
    }
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_LT(refused, 20'000);
}

}  // namespace
}  // namespace ebbtide::benchmarks
