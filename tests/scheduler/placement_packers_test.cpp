// What every packer promises, and the parts that they share.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "ebbtide/scheduler/placement_validator.hpp"
#include "placement/attempts.hpp"
#include "placement/buffer_orders.hpp"
#include "placement/floor_search.hpp"
#include "placement/learned_order.hpp"
#include "placement/ordered_packer.hpp"
#include "random_placements.hpp"

namespace ebbtide::scheduler {
namespace {

constexpr Bytes kAnyHeight = std::numeric_limits<Bytes>::max();

PlacementProblem withoutEmpty(PlacementProblem problem) {
  std::erase_if(problem.buffers, [](const Buffer& buffer) { return buffer.bytes == 0; });
  return problem;
}

LiveSections sectionsOf(const PlacementProblem& problem) {
  std::vector<std::int32_t> all(problem.buffers.size());
  std::iota(all.begin(), all.end(), 0);
  return liveSections(problem, all);
}

std::string fault(const PlacementProblem& problem, const LiveSections& sections,
                  const std::vector<Bytes>& offsets, Bytes height) {
  return validate(problem, {offsets, height, sections.load_bytes, false, ""}).value_or("");
}

// Every offset between two tops, of what overlaps in time.
std::vector<Bytes> packedNaively(const PlacementProblem& problem,
                                 const std::vector<std::int32_t>& order, Fit fit) {
  std::vector<Bytes> offsets(problem.buffers.size(), -1);
  for (const std::int32_t span : order) {
    const Buffer& buffer = problem.buffers[span];
    std::vector<std::pair<Bytes, Bytes>> taken;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const Buffer& other = problem.buffers[i];
      if (offsets[i] < 0 || other.lower >= buffer.upper || buffer.lower >= other.upper) continue;
      taken.emplace_back(offsets[i], offsets[i] + other.bytes);
    }
    std::sort(taken.begin(), taken.end());
    Bytes top = 0, best = -1, smallest = kAnyHeight;
    for (const auto& [from, to] : taken) {
      const Bytes gap = from - top;
      const bool first = fit == Fit::kFirst && best >= 0;
      if (gap >= buffer.bytes && gap < smallest && !first) {
        best = top;
        smallest = gap;
      }
      top = std::max(top, to);
    }
    offsets[span] = best >= 0 ? best : top;
  }
  return offsets;
}

TEST(OrderedPacker, PacksAsOneWouldByHand) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto problem = withoutEmpty(randomPlacement(seed, 10 + 4 * seed, 60, 40));
    const LiveSections sections = sectionsOf(problem);
    const BufferOrders orders(sections);
    for (const BufferOrder& order : packingOrders()) {
      const auto spans = orders.spans(order);
      for (const Fit fit : {Fit::kFirst, Fit::kBest}) {
        const Packing packing = packInOrder(sections, spans, fit, kAnyHeight, kNoDeadline);
        EXPECT_EQ(packing.offsets, packedNaively(problem, spans, fit)) << seed << order.name;
        EXPECT_EQ(fault(problem, sections, packing.offsets, packing.height_bytes), "");
      }
    }
  }
}

TEST(OrderedPacker, GivesUpWhereItIsTooHigh) {
  const PlacementProblem problem{{{0, 2, 3}, {1, 3, 4}, {2, 4, 5}}, 1};  // LOAD 4 + 5
  const LiveSections sections = sectionsOf(problem);
  EXPECT_EQ(packInOrder(sections, {0, 1, 2}, Fit::kFirst, 13, kNoDeadline).height_bytes, 12);
  const Packing packing = packInOrder(sections, {0, 1, 2}, Fit::kFirst, 12, kNoDeadline);
  EXPECT_TRUE(packing.offsets.empty());  // 0 at 0, 1 at 3, and 2 would end at 7 + 5
  EXPECT_EQ(packing.given_up_at, 2);
}

// Of (size, lifetime): a (2, 4), b (3, 1), c (3, 4). Loads: a and c 5, b 3 + 3 of 6.
TEST(BufferOrders, PutTheLargestFirst) {
  const PlacementProblem problem{{{0, 4, 2}, {5, 6, 3}, {2, 6, 3}}, 1};
  const LiveSections sections = sectionsOf(problem);
  EXPECT_EQ(sections.load, (std::vector<Bytes>{5, 6}));
  const BufferOrders orders(sections);
  const auto spans = [&](std::vector<BufferKey> keys) {
    return orders.spans({"", std::move(keys)});
  };
  EXPECT_EQ(spans({BufferKey::kSize}), (std::vector<std::int32_t>{2, 1, 0}));  // c is born first
  EXPECT_EQ(spans({BufferKey::kLifetime, BufferKey::kSize}), (std::vector<std::int32_t>{2, 0, 1}));
  EXPECT_EQ(spans({BufferKey::kArea}), (std::vector<std::int32_t>{2, 0, 1}));  // 12, 8, 3
  EXPECT_EQ(spans({BufferKey::kBirth}), (std::vector<std::int32_t>{0, 2, 1}));
  EXPECT_EQ(spans({BufferKey::kLoad}), (std::vector<std::int32_t>{2, 1, 0}));
}

TEST(LearnedOrder, PutsWhatWasToBlameFirst) {
  LearnedOrder learned({2, 0, 1, 3}, 0, 0);
  EXPECT_EQ(learned.order(), (std::vector<std::int32_t>{2, 0, 1, 3}));
  learned.learn({0, 7, 0, 0});
  EXPECT_EQ(learned.order(), (std::vector<std::int32_t>{1, 2, 0, 3}));
}

class FloorSearchTest : public testing::Test {
 protected:
  FloorSearch::Outcome run(Bytes height, const FloorSearchLimits& limits) {
    search_.emplace(sections_, neighbours_, order_, height);
    return search_->run(limits);
  }

  // 2 and 5 are alive together, then 5 and 3: LOAD is 8.
  const PlacementProblem problem_{{{0, 2, 2}, {0, 4, 5}, {2, 4, 3}}, 1};
  const LiveSections sections_ = sectionsOf(problem_);
  const TimeNeighbours neighbours_{sections_};
  const std::vector<std::int32_t> order_ = {0, 1, 2};
  std::optional<FloorSearch> search_;
};

TEST_F(FloorSearchTest, FindsAPlacement) {
  ASSERT_EQ(run(8, {100}), FloorSearch::Outcome::kFound);
  EXPECT_EQ(fault(problem_, sections_, search_->offsets(), 8), "");
}

TEST_F(FloorSearchTest, SaysThatThereIsNone) {
  EXPECT_EQ(run(7, {100}), FloorSearch::Outcome::kImpossible);
}

TEST_F(FloorSearchTest, StopsAtItsLimits) {
  EXPECT_EQ(run(8, {1}), FloorSearch::Outcome::kStopped);
  EXPECT_EQ(run(8, {100, Deadline::min()}), FloorSearch::Outcome::kStopped);
  const std::atomic<bool> cancelled = true;
  EXPECT_EQ(run(8, {100, kNoDeadline, &cancelled}), FloorSearch::Outcome::kStopped);
}

// Jumping back over what a failure does not depend on must not jump over a placement.
TEST(FloorSearch, FindsWhatIsThereInAnyOrder) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const PlacementProblem problem = cutRectangle(seed, 40);
    const LiveSections sections = sectionsOf(problem);
    const TimeNeighbours neighbours(sections);
    std::vector<std::int32_t> order(problem.buffers.size());
    std::iota(order.begin(), order.end(), 0);  // shuffled by cutRectangle()
    FloorSearch search(sections, neighbours, order, 64);
    ASSERT_EQ(search.run({1'000'000}), FloorSearch::Outcome::kFound) << seed;
    EXPECT_EQ(fault(problem, sections, search.offsets(), 64), "") << seed;
  }
}

TEST(FirstSuccess, IsTheOneWithTheLowestNumber) {
  for (const unsigned threads : {1u, 4u}) {
    const auto from = [&](std::size_t least) {
      return firstSuccess(20, threads,
                          [&](std::size_t i, const std::atomic<bool>&) { return i >= least; });
    };
    EXPECT_EQ(from(7), 7u);
    EXPECT_EQ(from(0), 0u);
    EXPECT_EQ(from(20), 20u);
  }
}

TEST(FirstSuccess, PassesOnWhatIsThrown) {
  const auto fail = [](std::size_t i, const std::atomic<bool>&) {
    if (i == 3) throw std::runtime_error("third");
    return false;
  };
  EXPECT_THROW(firstSuccess(8, 3, fail), std::runtime_error);
}

}  // namespace
}  // namespace ebbtide::scheduler
