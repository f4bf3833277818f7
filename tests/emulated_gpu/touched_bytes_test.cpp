// The spans of touched bytes against a table that has each byte.
#include "touched_bytes.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

namespace emulated_gpu {
namespace {

constexpr std::size_t kBytes = 64;

struct Byte {
  Touch write;
  std::vector<Touch> reads;
};
using Found = std::set<std::pair<int, std::uint64_t>>;  // lane, task

class Table {
 public:
  Found check(const Access& access, const Seen& seen) {
    Found found;
    eachByte(access, [&](Byte& byte) {
      const auto see = [&](const Touch& touch) {
        if (touch.lane >= 0 && !comesBefore(touch, seen)) found.emplace(touch.lane, touch.number);
      };
      see(byte.write);
      if (!access.writes) return;
      for (const Touch& read : byte.reads) see(read);
    });
    return found;
  }
  void note(const Access& access, const Touch& touch, const Seen& seen) {
    eachByte(access, [&](Byte& byte) {
      if (access.writes) {
        byte = {touch, {}};
        return;
      }
      std::erase_if(byte.reads, [&](const Touch& each) { return comesBefore(each, seen); });
      byte.reads.push_back(touch);
    });
  }
  void forget(std::uintptr_t begin, std::uintptr_t end) {
    for (std::uintptr_t i = begin; i < end; ++i) bytes_[i] = {};
  }

 private:
  template <typename Function>
  void eachByte(const Access& access, Function see) {
    const auto begin = reinterpret_cast<std::uintptr_t>(access.begin);
    for (std::size_t row = 0; row < access.rows; ++row) {
      for (std::size_t i = 0; i < access.bytes; ++i) see(bytes_[begin + row * access.pitch + i]);
    }
  }

  std::vector<Byte> bytes_ = std::vector<Byte>(kBytes);
};

TEST(TouchedBytesTest, AreThoseOfEachByte) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int round = 0; round < 300; ++round) {
    TouchedBytes spans;
    Table table;
    std::vector<Seen> seen(3, Seen(3));  // of three streams
    for (int step = 0; step < 60; ++step) {
      if (below(10) == 0) {
        const std::uintptr_t begin = below(kBytes), end = begin + below(kBytes - begin + 1);
        spans.forget({begin, end});
        table.forget(begin, end);
        continue;
      }
      const std::size_t lane = below(3), other = below(3);
      if (below(3) == 0) {  // it waits for the other one
        for (std::size_t i = 0; i < 3; ++i) seen[lane][i] = std::max(seen[lane][i], seen[other][i]);
      }
      Access access{nullptr, 1 + below(6), below(2) == 0, 1 + below(4), 0};
      access.pitch = access.bytes + below(8);
      const std::size_t length = (access.rows - 1) * access.pitch + access.bytes;
      access.begin = reinterpret_cast<void*>(below(kBytes - length + 1));
      const Touch touch{static_cast<int>(lane), ++seen[lane][lane], ""};
      Found found;
      spans.check(access, seen[lane], [&](const Touch& earlier, bool, TouchedBytes::Range range) {
        EXPECT_LT(range.begin, range.end);
        found.emplace(earlier.lane, earlier.number);
      });
      EXPECT_EQ(found, table.check(access, seen[lane])) << "round " << round << ", step " << step;
      spans.note(access, touch, seen[lane]);
      table.note(access, touch, seen[lane]);
    }
  }
}

// 16 rows of 4 bytes, 8 apart, are 16 spans; a dense write over them is one again.
TEST(TouchedBytesTest, AreAsFewAsTheyTell) {
  TouchedBytes spans;
  Seen seen{1};
  spans.note({reinterpret_cast<void*>(64), 4, false, 16, 8}, {0, 1, ""}, seen);
  EXPECT_EQ(spans.spans(), 16U);
  for (std::uintptr_t i = 0; i < 16; ++i) {
    spans.note({reinterpret_cast<void*>(68 + 8 * i), 4, false}, {0, 1, ""}, seen);
  }
  EXPECT_EQ(spans.spans(), 1U) << "a task's reads beside each other";
  spans.note({reinterpret_cast<void*>(64), 128, true}, {0, 1, ""}, seen);
  EXPECT_EQ(spans.spans(), 1U);
}

}  // namespace
}  // namespace emulated_gpu
