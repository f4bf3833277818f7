// The slots against a model that only knows what was given out and what was mapped.
#include "small_area.hpp"

#include <gtest/gtest.h>

#include <array>
#include <iterator>
#include <map>
#include <random>
#include <vector>

namespace ebbtide::allocator {
namespace {

struct Shape {
  Bytes alignment_bytes, page_bytes;
};

class ModelledArea {
 public:
  static constexpr Bytes kBytes = Bytes{64} << 20;

  ModelledArea(const Shape& shape, std::uint64_t seed)
      : grain_(shape.alignment_bytes),
        chunk_(std::max<Bytes>(1024 * grain_, shape.page_bytes)),
        page_(shape.page_bytes),
        random_(seed),
        area_(begin(), kBytes, shape.alignment_bytes, shape.page_bytes) {}

  void step() {
    const std::uint64_t dice = random_() % 100;
    if (dice < 48) {
      take(static_cast<std::uint32_t>(random_() % kClasses));
    } else if (dice < 50) {
      empty(random_() % 3 != 0);
    } else {
      giveBack();
    }
  }

  // False: the system has no pages.
  bool grow(const SmallArea::Growth& growth) {
    EXPECT_EQ(growth.bytes % page_, 0);
    EXPECT_EQ((growth.begin - begin()) % page_, 0);
    EXPECT_LE((growth.begin - begin()) % chunk_ + growth.bytes, chunk_);
    for (Bytes at = 0; at < growth.bytes; at += page_) {
      EXPECT_FALSE(mapped_.contains(growth.begin + at));
    }
    // Out of use meanwhile; others take and free.
    if (random_() % 4 == 0) giveBack();
    const bool mapped = random_() % 4 != 0;
    if (mapped) {
      for (Bytes at = 0; at < growth.bytes; at += page_) mapped_[growth.begin + at] = true;
    }
    area_.settleGrowth(growth, mapped);
    return mapped;
  }

  void take(std::uint32_t size_class) {
    void* slot = area_.take(size_class);
    if (slot == nullptr) {
      const bool little = random_() % 2 == 0;
      const SmallArea::Growth growth = area_.takeGrowth(size_class, little);
      // None: an empty chunk has been carved anew, and its pages suffice.
      ASSERT_TRUE(growth.bytes > 0 || little);
      if (growth.bytes > 0 && !grow(growth)) return;
      slot = area_.take(size_class);
      ASSERT_NE(slot, nullptr);
    }
    auto* first = static_cast<std::byte*>(slot);
    const Bytes bytes = slotGrains(size_class) * grain_;
    ASSERT_EQ(area_.slotAt(slot).bytes, bytes);
    ASSERT_EQ((first - begin()) % grain_, 0);
    ASSERT_EQ((first - begin()) / chunk_, (first + bytes - 1 - begin()) / chunk_);
    for (std::byte* at = begin() + (first - begin()) / page_ * page_; at < first + bytes;
         at += page_) {
      ASSERT_TRUE(mapped_.contains(at));
    }
    const auto after = live_.lower_bound(first);
    ASSERT_TRUE(after == live_.end() || first + bytes <= after->first);
    ASSERT_TRUE(after == live_.begin() ||
                std::prev(after)->first + std::prev(after)->second <= first);
    ASSERT_FALSE(area_.slotAt(slot).shared);
    if (random_() % 8 == 0) area_.markShared(slot);
    live_.emplace(first, bytes);
    live_bytes_ += bytes;
  }

  void giveBack() {
    if (live_.empty()) return;
    auto from = live_.lower_bound(begin() + random_() % kBytes);
    if (from == live_.end()) from = std::prev(live_.end());
    // Neither its inside nor the slot once more.
    if (from->second > grain_) {
      ASSERT_FALSE(area_.giveBack(from->first + grain_));
    }
    ASSERT_FALSE(area_.giveBack(from->first + 1));
    ASSERT_TRUE(area_.giveBack(from->first));
    ASSERT_FALSE(area_.giveBack(from->first));
    live_bytes_ -= from->second;
    live_.erase(from);
  }

  void empty(bool unmapped) {
    std::array<SmallArea::Growth, 5> out;
    const std::size_t count = area_.takeEmptyChunks(out, 3 * chunk_);
    for (std::size_t i = 0; i < count; ++i) {
      const auto live = live_.lower_bound(out[i].begin);
      ASSERT_TRUE(live == live_.end() || live->first >= out[i].begin + chunk_);
      for (Bytes at = 0; at < out[i].bytes; at += page_) {
        ASSERT_TRUE(mapped_.contains(out[i].begin + at));
        if (unmapped) mapped_.erase(out[i].begin + at);
      }
      area_.settleEmptied(out[i], unmapped);
    }
  }

  void check() const {
    ASSERT_EQ(area_.liveBytes(), live_bytes_);
    ASSERT_EQ(area_.mappedBytes(), static_cast<Bytes>(mapped_.size()) * page_);
    Bytes empty_bytes = 0;
    for (const auto& [page, unused] : mapped_) {
      std::byte* const chunk = begin() + (page - begin()) / chunk_ * chunk_;
      const auto live = live_.lower_bound(chunk);
      if (live == live_.end() || live->first >= chunk + chunk_) empty_bytes += page_;
    }
    ASSERT_EQ(area_.emptyBytes(), empty_bytes);
    auto live = live_.begin();
    std::byte* at = begin();
    area_.forEachSlot([&](const std::byte* slot, Bytes bytes, bool is_live) {
      EXPECT_GE(slot, at);  // in order, disjoint
      at = const_cast<std::byte*>(slot) + bytes;
      if (!is_live) return;
      ASSERT_NE(live, live_.end());
      ASSERT_EQ(live->first, slot);
      ASSERT_EQ(live->second, bytes);
      ++live;
    });
    ASSERT_EQ(live, live_.end());
  }

  void finish() {
    while (!live_.empty()) giveBack();
    while (area_.emptyBytes() > 0) empty(/*unmapped=*/true);
    check();
    EXPECT_EQ(area_.mappedBytes(), 0);
  }

 private:
  // Never touched: the area keeps its books beside the memory.
  static std::byte* begin() { return reinterpret_cast<std::byte*>(Bytes{1} << 40); }

  const Bytes grain_, chunk_, page_;
  std::mt19937_64 random_;
  SmallArea area_;
  std::map<std::byte*, Bytes> live_;
  std::map<std::byte*, bool> mapped_;  // pages
  Bytes live_bytes_ = 0;
};

class SmallAreaTest : public testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, SmallAreaTest,
                         testing::Values(Shape{64, 4096}, Shape{512, 4096}, Shape{64, 2 << 20},
                                         Shape{512, 2 << 20}, Shape{64, 65536}));

TEST_P(SmallAreaTest, DoesWhatTheModelSays) {
  ModelledArea area(GetParam(), /*seed=*/5);
  for (int operation = 0; operation < 30'000; ++operation) {
    ASSERT_NO_FATAL_FAILURE(area.step()) << operation;
    if (operation % 100 == 0) {
      ASSERT_NO_FATAL_FAILURE(area.check()) << operation;
    }
  }
  area.finish();
}

TEST(SizeClassTest, TheSmallestSlotThatIsEnough) {
  for (std::int64_t grains = 1; grains <= kMaxSlotGrains; ++grains) {
    const std::uint32_t size_class = classFor(grains);
    ASSERT_GE(slotGrains(size_class), grains);
    if (size_class > 0) {
      ASSERT_LT(slotGrains(size_class - 1), grains);
    }
  }
}

// A chunk has 1024 grains: one slot of 512 + 448 = 960 leaves 64 grains. The next slot of 512 does
// not fit, so the rest becomes one slot of 64, which serves the next request of that size.
TEST(SmallAreaEdgeTest, TheRestOfAChunkServesSmallerClasses) {
  auto* begin = reinterpret_cast<std::byte*>(Bytes{1} << 40);
  SmallArea area(begin, Bytes{64} << 20, 64, 4096);
  const auto take = [&](std::int64_t grains) {
    const std::uint32_t size_class = classFor(grains);
    if (void* slot = area.take(size_class)) return static_cast<std::byte*>(slot);
    area.settleGrowth(area.takeGrowth(size_class, /*as_little_as_possible=*/false), true);
    return static_cast<std::byte*>(area.take(size_class));
  };
  EXPECT_EQ(take(512), begin);
  EXPECT_EQ(take(448), begin + 512 * 64);
  EXPECT_EQ(take(512), begin + 1024 * 64);  // another chunk
  EXPECT_EQ(take(64), begin + 960 * 64);
  EXPECT_EQ(area.mappedBytes(), 2 * 65536);
}

}  // namespace
}  // namespace ebbtide::allocator
