// What the first step of a run foretells of later ones (GraphOptions::first_step).
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/spilling_floor.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;
using Sizes = std::vector<Bytes>;

constexpr Bytes kWeights = 1000;

Bytes sum(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), Bytes{0});
}

// A training loop. A step: two ops of a batch, the backward pass, then, in some order:
//
//   gradients go ─ the update ─ the average of the weights is made anew, the last one goes ─ the
//   next batch is loaded, the last one goes ─ in the first step: DDP's buckets go, and come again
//   in other pieces
struct Loop {
  Bytes batch = 50;
  Sizes loaded_ahead = {};  // more batches, of the steps to come
  Sizes unread = {};        // of a batch: read by no op, gone before the update
  Sizes gradients = {};     // made in the backward pass
  bool keeps_gradients = false;
  Sizes state = {};          // of the optimizer: the first update makes it
  Sizes history = {};        // each update makes as much once more
  Sizes average = {};        // of the weights, found by the first step
  Sizes first_buckets = {};  // found by the first step
  Sizes buckets = {};        // in their place, from then on
  Bytes gathered = 0;        // weights: the first step finds them, later ones make them first
  Bytes kept_loss = 0;       // until the next one is there
  Bytes moment = 0;          // for a moment, between forward and backward pass
  std::vector<int> order = {0, 1, 2, 3, 4, 5, 6};
};

class Step {
 public:
  // The first step or the second.
  Step(const Loop& loop, bool first) : loop_(loop), first_(first) {
    trace_.base_bytes = kWeights + sum(loop.loaded_ahead);
    trace_.ops = {{"first", 11, 5, true, {0}, {1}}, {"second", 12, 7, true, {1}, {2}}};
    trace_.use_value = {1, 2};
    find(loop.batch);  // block 0
    const std::vector<BlockId> unread = findAll(loop.unread);
    old_average_ = findAll(loop.average);
    old_buckets_ = findAll(first ? loop.first_buckets : loop.buckets);
    if (!first) {
      trace_.base_bytes += sum(loop.state) + sum(loop.history);
      if (loop.keeps_gradients) trace_.base_bytes += sum(loop.gradients);
      if (loop.kept_loss > 0) old_loss_ = {find(loop.kept_loss)};
    }
    const BlockId one = block(100, false), two = block(100, false);
    trace_.values = {{kNone, 0, kNone, kNone, false},
                     {0, one, kNone, kNone, false},
                     {1, two, kNone, kNone, false}};
    std::vector<BlockId> gathered;
    if (loop.gathered > 0) {
      gathered = {first ? find(loop.gathered) : make(loop.gathered)};
      addInput({kNone, gathered[0], kNone, kNone, true});
    }
    forward(0, {one});
    std::vector<BlockId> outputs = {two};
    if (loop.kept_loss > 0) {
      outputs.push_back(block(loop.kept_loss, false));
      addOutput({1, outputs.back(), kNone, kNone, false});
    }
    forward(1, outputs);
    giveBack(old_loss_);
    event(Kind::kLastReference, 1);
    event(Kind::kLastReference, 2);
    if (loop.moment > 0) giveBack({make(loop.moment)});
    backward(1, two);
    std::vector<BlockId> gradients;
    if (first || !loop.keeps_gradients) gradients = makeAll(loop.gradients);
    backward(0, one);
    giveBack(gathered);
    giveBack(unread);
    const std::vector<std::function<void()>> tail = {[&] {
                                                       if (!loop_.keeps_gradients)
                                                         giveBack(gradients);
                                                     },
                                                     [&] { update(); },
                                                     [&] { makeAll(loop_.average); },
                                                     [&] { giveBack(old_average_); },
                                                     [&] { load(); },
                                                     [&] { giveBack({0}); },
                                                     [&] { rebuildBuckets(); }};
    for (const int action : loop.order) tail[action]();
  }

  const Trace& trace() const { return trace_; }

 private:
  BlockId block(Bytes bytes, bool before) {
    trace_.blocks.push_back({bytes, before, false});
    return static_cast<BlockId>(trace_.blocks.size()) - 1;
  }
  BlockId find(Bytes bytes) {
    trace_.base_bytes += bytes;
    return block(bytes, true);
  }
  std::vector<BlockId> findAll(const Sizes& sizes) {
    std::vector<BlockId> found;
    for (const Bytes bytes : sizes) found.push_back(find(bytes));
    return found;
  }
  void addInput(const TraceValue& value) {  // of the first op
    trace_.ops[0].inputs.push_back(static_cast<ValueId>(trace_.values.size()));
    trace_.values.push_back(value);
  }
  void addOutput(const TraceValue& value) {  // of the second
    trace_.ops[1].outputs.push_back(static_cast<ValueId>(trace_.values.size()));
    trace_.values.push_back(value);
  }
  void event(Kind kind, std::int32_t id) {
    trace_.events.push_back({kind, id, static_cast<Nanoseconds>(trace_.events.size())});
  }
  BlockId make(Bytes bytes) {
    const BlockId made = block(bytes, false);
    event(Kind::kAlloc, made);
    return made;
  }
  std::vector<BlockId> makeAll(const Sizes& sizes) {
    std::vector<BlockId> made;
    for (const Bytes bytes : sizes) made.push_back(make(bytes));
    return made;
  }
  void giveBack(const std::vector<BlockId>& blocks) {
    for (const BlockId one : blocks) event(Kind::kFree, one);
  }
  void forward(OpId op, const std::vector<BlockId>& outputs) {
    event(Kind::kOpBegin, op);
    for (const BlockId output : outputs) event(Kind::kAlloc, output);
    event(Kind::kOpEnd, op);
  }
  void backward(UseId use, BlockId saved) {
    event(Kind::kBackwardNode, kNone);
    event(Kind::kUnpack, use);
    event(Kind::kRelease, use);
    event(Kind::kFree, saved);
  }
  void update() {
    if (first_) makeAll(loop_.state);
    makeAll(loop_.history);
  }

  void load() {
    make(loop_.batch);
    makeAll(loop_.unread);
  }
  void rebuildBuckets() {
    if (!first_) return;
    giveBack(old_buckets_);
    makeAll(loop_.buckets);
  }

  const Loop& loop_;
  const bool first_;
  Trace trace_;
  std::vector<BlockId> old_average_, old_buckets_, old_loss_;
};

TraceGraph graphOf(const Loop& loop, bool first, bool foretells) {
  return buildGraph(Step(loop, first).trace(), {.first_step = foretells});
}
TraceGraph foretold(const Loop& loop) {
  return graphOf(loop, true, true);
}
TraceGraph asItWas(const Loop& loop) {
  return graphOf(loop, true, false);
}
TraceGraph second(const Loop& loop) {
  return graphOf(loop, false, false);
}

Bytes floorOf(const TraceGraph& step) {
  return spillingFloor(step.graph).bytes;
}
Bytes peakOf(const TraceGraph& step) {
  return simulate(step.graph, keepEverything(step.graph)).peak_bytes;
}
Bytes startOf(const TraceGraph& step) {
  return step.graph.ops[0].fixed_bytes;
}

TEST(FirstStep, StateOfTheOptimizerIsThereFromTheStart) {
  const Loop adamw = {.gradients = {30, 40}, .state = {30, 30, 40, 40}};
  EXPECT_EQ(startOf(foretold(adamw)), kWeights + 140);
  EXPECT_EQ(floorOf(foretold(adamw)), floorOf(second(adamw)));
  EXPECT_EQ(peakOf(foretold(adamw)), peakOf(second(adamw)));
  const Loop lbfgs = {.gradients = {70}, .history = {70, 70}};
  EXPECT_EQ(startOf(foretold(lbfgs)), kWeights + 140);
}

// The first buckets are 60 and 10 B, the second ones 25 and 45. Later steps find these alone.
TEST(FirstStep, BucketsThatAreMadeAgainInOtherPiecesCountOnce) {
  const Loop ddp = {.gradients = {25, 45},
                    .state = {25, 25, 45, 45},
                    .first_buckets = {60, 10},
                    .buckets = {25, 45}};
  EXPECT_EQ(startOf(foretold(ddp)), kWeights + 140 + 70);
  EXPECT_EQ(floorOf(foretold(ddp)), floorOf(second(ddp)));
  EXPECT_EQ(peakOf(foretold(ddp)), peakOf(second(ddp)));
  EXPECT_EQ(foretold(ddp).activation_bytes, second(ddp).activation_bytes);
}

// The loss's 5 B stay to the end of the step: it does not end with less than the next begins with.
TEST(FirstStep, TheStartIsNotTakenToHoldLessThanTheEnd) {
  const Loop ddp = {.first_buckets = {60, 10}, .buckets = {70 - 30, 30}, .kept_loss = 5};
  EXPECT_EQ(startOf(foretold(ddp)), kWeights + 70 + 5);
  EXPECT_EQ(foretold(ddp).activation_bytes, asItWas(ddp).activation_bytes);
}

// Gradients that stay are 70 B more from the second step on, as much as a step found once.
TEST(FirstStep, BucketsCountTwiceWhereGradientsStay) {
  const Loop ddp = {.gradients = {20, 50},
                    .keeps_gradients = true,
                    .first_buckets = {60, 10},
                    .buckets = {20, 50}};
  EXPECT_EQ(startOf(foretold(ddp)), kWeights + 70 + 70);
  EXPECT_EQ(startOf(second(ddp)), kWeights + 70 + 70);
}

// What a checkpoint was loaded into goes at the step's end: the step needs it, and nothing comes
// in its place.
TEST(FirstStep, WhatItGivesBackForNothingIsItsNeed) {
  const Loop resumed = {.first_buckets = {400}};
  EXPECT_EQ(startOf(foretold(resumed)), kWeights + 400);
  EXPECT_EQ(floorOf(foretold(resumed)), floorOf(asItWas(resumed)));
}

// It goes before 140 B of state are made: at that moment the step had 260 B more than later ones
// begin with.
TEST(FirstStep, NoMomentIsTakenToHoldLessThanItDid) {
  const Loop resumed = {.state = {70, 70}, .first_buckets = {400}, .order = {0, 6, 1, 2, 3, 4, 5}};
  EXPECT_EQ(startOf(foretold(resumed)), kWeights + 400);
  EXPECT_GE(floorOf(foretold(resumed)), floorOf(asItWas(resumed)));
}

// Made anew in each step, unread: the last one is there until the next one is.
TEST(FirstStep, AnAverageThatIsMadeAnewIsThereFromTheStart) {
  const Loop averaged = {.state = {30, 40}, .average = {30, 40}};
  EXPECT_EQ(startOf(foretold(averaged)), kWeights + 70 + 70);
  EXPECT_EQ(floorOf(foretold(averaged)), floorOf(second(averaged)));
}

// As large as the state, and made before it: for a moment there are two.
TEST(FirstStep, AnAverageIsNoStateThatIsAsLarge) {
  const Loop averaged = {.state = {400}, .average = {400}, .order = {2, 3, 1, 0, 4, 5, 6}};
  EXPECT_EQ(startOf(foretold(averaged)), kWeights + 400 + 400);
  EXPECT_GE(peakOf(foretold(averaged)), kWeights + 400 + 400 + 400);
  EXPECT_EQ(peakOf(foretold(averaged)), peakOf(second(averaged)));
}

// FSDP's parameters: each later step gathers them again before it reads them.
TEST(FirstStep, WhatAnOpReadsIsFoundAgain) {
  const Loop fsdp = {.state = {35, 35}, .gathered = 70};
  EXPECT_EQ(startOf(foretold(fsdp)), kWeights + 70 + 70);
  EXPECT_EQ(floorOf(foretold(fsdp)), floorOf(second(fsdp)));
}

TEST(FirstStep, BatchesThatAreLoadedAheadCountOnce) {
  const Loop ahead = {.loaded_ahead = {50, 50}, .state = {50}};  // one as large as a batch
  EXPECT_EQ(startOf(foretold(ahead)), kWeights + 100 + 50);
  EXPECT_EQ(floorOf(foretold(ahead)), floorOf(second(ahead)));
}

// As accelerate does: the next batch is there by the end of the step.
TEST(FirstStep, WhatNoOpReadsOfABatchCountsOnce) {
  const Loop masked = {.unread = {30}, .state = {40}};
  EXPECT_EQ(startOf(foretold(masked)), kWeights + 30 + 40);
  EXPECT_EQ(peakOf(foretold(masked)), peakOf(second(masked)));
}

// Few sizes, so that state, batch, buckets and averages are often as large as each other.
Loop drawn(std::mt19937& random) {
  const auto number = [&random](int most) { return static_cast<int>(random() % (most + 1)); };
  const auto sizes = [&number](int most) {
    Sizes drawn(number(most));
    for (Bytes& bytes : drawn) bytes = 10 * (1 + number(4));
    return drawn;
  };
  Loop loop = {.batch = 10 * (1 + number(4)),
               .loaded_ahead = sizes(2),
               .unread = sizes(1),
               .gradients = sizes(3),
               .keeps_gradients = number(3) == 0,
               .state = sizes(4),
               .history = sizes(1),
               .average = sizes(3),
               .buckets = sizes(3),
               .gathered = number(3) == 0 ? 10 * (1 + number(9)) : 0,
               .kept_loss = number(1),
               .moment = 100 * number(6)};
  for (Bytes left = sum(loop.buckets); left > 0; left -= loop.first_buckets.back())
    loop.first_buckets.push_back(std::min<Bytes>(left, 10 * (1 + number(6))));
  // DDP makes its buckets anew at the begin of the next forward pass.
  std::shuffle(loop.order.begin(), loop.order.end() - 1, random);
  return loop;
}

// No less than the step itself needed, nor than the next one does: but for gradients and a loss
// that stay, and for what each step keeps more, which the next one tells.
TEST(FirstStep, ForetellsWhatTheNextStepNeeds) {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const Loop loop = drawn(random);
    const TraceGraph was = asItWas(loop), next = second(loop), told = foretold(loop);
    const Bytes stays =
        loop.kept_loss + sum(loop.history) + (loop.keeps_gradients ? sum(loop.gradients) : 0);
    ASSERT_GE(startOf(told) + stays, startOf(next)) << i;
    ASSERT_GE(floorOf(told) + stays, floorOf(next)) << i;
    ASSERT_GE(peakOf(told) + stays, peakOf(next)) << i;
    ASSERT_GE(floorOf(told), floorOf(was)) << i;
    ASSERT_GE(peakOf(told), peakOf(was)) << i;
    ASSERT_EQ(told.activation_bytes, was.activation_bytes) << i;
  }
}

}  // namespace
}  // namespace ebbtide::scheduler
