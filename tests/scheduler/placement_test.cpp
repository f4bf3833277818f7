#include "ebbtide/scheduler/placement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <stdexcept>

#include "ebbtide/scheduler/placement_validator.hpp"
#include "random_placements.hpp"

namespace ebbtide::scheduler {
namespace {

using Clock = std::chrono::steady_clock;

std::string refusal(const PlacementProblem& problem) {
  try {
    place(problem);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// Tries every offset for every buffer.
class BruteForce {
 public:
  explicit BruteForce(const PlacementProblem& problem)
      : load_(placementLoad(problem)), buffers_(problem.buffers) {
    std::sort(buffers_.begin(), buffers_.end(),
              [](const Buffer& a, const Buffer& b) { return a.lower < b.lower; });
  }

  Bytes leastHeight() {
    Bytes height = load_;
    while (!fit(height)) ++height;
    return height;
  }

 private:
  // The buffers that have no offset yet.
  bool fit(Bytes height) {
    const std::size_t next = offsets_.size();
    if (next == buffers_.size()) return true;
    for (Bytes offset = 0; offset + buffers_[next].bytes <= height; ++offset) {
      if (!isFree(buffers_[next], offset)) continue;
      offsets_.push_back(offset);
      if (fit(height)) return true;
      offsets_.pop_back();
    }
    return false;
  }

  bool isFree(const Buffer& buffer, Bytes offset) const {
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      if (buffers_[i].upper > buffer.lower && offsets_[i] < offset + buffer.bytes &&
          offset < offsets_[i] + buffers_[i].bytes) {
        return false;
      }
    }
    return true;
  }

  const Bytes load_;
  std::vector<Buffer> buffers_;  // by birth
  std::vector<Bytes> offsets_;   // of the first of them
};

void expectProvenLeast(const PlacementProblem& problem) {
  const Placement placement = place(problem);
  EXPECT_EQ(validate(problem, placement).value_or(""), "");
  EXPECT_EQ(placement.height_bytes, BruteForce(problem).leastHeight());
  EXPECT_TRUE(placement.optimal);
}

TEST(Placement, IsTheLowestOfAll) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    expectProvenLeast(randomPlacement(seed, 1 + seed % 7, 8));
  }
}

TEST(Placement, IsTheLowestOfAllWhereLoadIsOutOfReach) {
  int above_load = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    const PlacementProblem problem = filledPlacement(seed, 7);
    expectProvenLeast(problem);
    above_load += place(problem).height_bytes > placementLoad(problem) ? 1 : 0;
  }
  EXPECT_GT(above_load, 4);
}

TEST(Placement, PutsACutRectangleTogether) {
  int searched = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const PlacementProblem problem = cutRectangle(seed, 160);
    const Placement placement = place(problem);
    EXPECT_EQ(validate(problem, placement).value_or(""), "") << seed;
    EXPECT_EQ(placement.height_bytes, 64) << seed;
    searched += placement.method == "exact search" ? 1 : 0;
  }
  EXPECT_GT(searched, 5);  // no packing of some order was enough
}

TEST(Placement, IsLegalAndNotUnderLoad) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    PlacementProblem problem = randomPlacement(seed, 10 + 5 * seed, 40, 1'000);
    problem.alignment_bytes = Bytes{1} << (seed % 9);
    PlacementOptions options;
    options.deadline = Clock::now() + std::chrono::milliseconds(20);
    options.threads = 1 + seed % 3;
    const Placement placement = place(problem, options);
    EXPECT_EQ(validate(problem, placement).value_or(""), "") << seed;
    EXPECT_GE(placement.height_bytes, placementLoad(problem)) << seed;
    EXPECT_EQ(placement.load_bytes, placementLoad(problem)) << seed;
    EXPECT_FALSE(placement.method.empty()) << seed;
  }
}

TEST(Placement, IsTheSameForASeedWhateverTheThreads) {
  int searched = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto problem = seed % 2 == 0 ? cutRectangle(seed, 160) : filledPlacement(seed, 7);
    PlacementOptions options;
    options.seed = seed;
    const Placement once = place(problem, options);
    for (const unsigned threads : {1u, 2u, 5u}) {
      options.threads = threads;
      const Placement again = place(problem, options);
      EXPECT_EQ(once.offsets, again.offsets) << seed << ", " << threads << " threads";
      EXPECT_EQ(once.method, again.method) << seed << ", " << threads << " threads";
    }
    searched += once.method == "exact search" ? 1 : 0;
  }
  EXPECT_GT(searched, 5);
}

// Two of 3 and one of 4 bytes, all at once: LOAD and height are 10 whatever is asked for.
TEST(Placement, SaysTheSmallestHeightWhereTheCapacityIsTooLow) {
  const PlacementProblem problem{{{0, 2, 3}, {0, 2, 3}, {1, 3, 4}}, 1};
  PlacementOptions options;
  options.capacity_bytes = 9;
  EXPECT_EQ(place(problem, options).height_bytes, 10);
}

TEST(Placement, EndsAtTheCapacity) {
  const PlacementProblem problem = randomPlacement(1, 200, 60, 1'000);
  PlacementOptions options;
  options.capacity_bytes = 2 * placementLoad(problem);  // the first packing is below that
  const Placement placement = place(problem, options);
  EXPECT_LE(placement.height_bytes, options.capacity_bytes);
  EXPECT_EQ(placement.method, "first fit by load and lifetime");
}

TEST(Placement, HasAResultAlsoWithoutTime) {
  const PlacementProblem problem = randomPlacement(2, 500, 100, 1'000);
  PlacementOptions options;
  options.deadline = Clock::time_point::min();
  EXPECT_EQ(validate(problem, place(problem, options)).value_or(""), "");
}

// As without time: the first packing, though a search would find the rectangle's height, 64.
TEST(Placement, EndsOnceNobodyWaits) {
  const std::atomic<bool> cancelled{true};
  PlacementOptions unwaited, late;
  unwaited.cancelled = &cancelled;
  late.deadline = Clock::time_point::min();
  int higher = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const PlacementProblem problem = cutRectangle(seed, 160);
    const Placement placement = place(problem, unwaited);
    EXPECT_EQ(validate(problem, placement).value_or(""), "") << seed;
    EXPECT_EQ(placement.offsets, place(problem, late).offsets) << seed;
    higher += placement.height_bytes > 64 ? 1 : 0;
  }
  EXPECT_GT(higher, 5);  // as above: no packing of some order was enough
}

TEST(Placement, PlacesNothing) {
  EXPECT_EQ(place({}).height_bytes, 0);
  EXPECT_TRUE(place({}).optimal);
  const Placement placement = place({{{0, 1, 0}, {0, 1, 7}, {0, 1, 0}}, 1});
  EXPECT_EQ(placement.offsets, (std::vector<Bytes>{0, 0, 0}));
  EXPECT_EQ(placement.height_bytes, 7);
}

TEST(Placement, AlignsOffsets) {
  const PlacementProblem problem{{{0, 2, 5}, {0, 2, 1}, {1, 3, 16}}, 16};
  const Placement placement = place(problem);
  EXPECT_EQ(placement.height_bytes, 48);  // 16 each
  EXPECT_EQ(validate(problem, placement).value_or(""), "");
}

TEST(Placement, SaysWhatIsWrongWithAProblem) {
  constexpr Bytes kMost = Bytes{1} << 60;
  EXPECT_EQ(refusal({{{0, 1, 1}, {3, 3, 1}}, 1}),
            "buffer 1 has an upper end that is not above the lower one");
  EXPECT_EQ(refusal({{{0, 1, -1}}, 1}), "buffer 0 has a negative size");
  EXPECT_EQ(refusal({{{0, 1, kMost + 1}}, 1}), "buffer 0 has a size over 2^60");
  EXPECT_EQ(refusal({{{-kMost - 1, 1, 1}}, 1}), "buffer 0 is alive outside of +-2^60");
  EXPECT_EQ(refusal({{{0, 1, kMost}, {1, 2, 1}}, 1}),
            "buffer 1 brings the sum of the sizes over 2^60");
  EXPECT_EQ(refusal({{{0, 1, 1}, {1, 2, kMost - 8}}, 16}),
            "buffer 1 brings the sum of the sizes over 2^60");
  EXPECT_EQ(refusal({{}, 0}), "the alignment is not 1 to 2^60");
  EXPECT_EQ(refusal({{{-kMost, kMost, kMost}}, kMost}), "");
}

TEST(Placement, PlacesATrainingStepNearLoad) {
  const PlacementProblem problem = trainingStep(1, 375);
  ASSERT_EQ(problem.buffers.size(), 3'000u);
  const Placement placement = place(problem);
  EXPECT_EQ(validate(problem, placement).value_or(""), "");
  EXPECT_LE(static_cast<double>(placement.height_bytes),
            1.005 * static_cast<double>(placement.load_bytes));
}

}  // namespace
}  // namespace ebbtide::scheduler
