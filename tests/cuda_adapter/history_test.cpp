// Snapshots, and the history of what happened.
#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

using c10::CachingDeviceAllocator::RecordContext;
using Action = TraceEntry::Action;

struct Here final : c10::GatheredContext {};
std::shared_ptr<c10::GatheredContext> here() {
  return std::make_shared<Here>();
}

class HistoryTest : public CudaAllocatorTest {
 protected:
  void record(std::size_t most, const std::vector<std::string>& skip = {},
              RecordContext when = RecordContext::ALL) {
    allocator_->recordHistory(true, &here, most, when, false, skip);
  }
  std::vector<TraceEntry> entries() {
    return allocator_->snapshot({0, 0}, true).device_traces.at(0);
  }
  std::vector<Action> actions() {
    std::vector<Action> list;
    for (const TraceEntry& entry : entries()) list.push_back(entry.action_);
    return list;
  }
};

// Pages of 2 MiB: the first block takes two, the second fits in what is left of them.
TEST_F(HistoryTest, ASnapshotShowsEveryByteOfEachSegment) {
  record(100);
  source_->stream = stream(3);
  void* first = take(3 * kMiB);
  void* second = take(512 * kKiB);
  void* few = take(1000);
  give(first);
  const auto segments = allocator_->snapshot({0, 0}, false).segments;
  ASSERT_EQ(segments.size(), 2U);
  for (const auto& segment : segments) {
    std::size_t sum = 0, active = 0;
    for (const auto& block : segment.blocks) {
      sum += block.size;
      if (block.active) active += block.size;
      EXPECT_EQ(block.active, block.context_when_allocated != nullptr);
    }
    EXPECT_EQ(sum, segment.total_size);
    EXPECT_EQ(active, segment.active_size);
    EXPECT_EQ(segment.device, 0);
    EXPECT_EQ(segment.stream, stream(3));
    EXPECT_TRUE(segment.is_expandable);
  }
  const auto& small = segments[segments[0].is_large ? 1 : 0];
  const auto& large = segments[segments[0].is_large ? 0 : 1];
  EXPECT_FALSE(small.is_large);
  EXPECT_EQ(small.requested_size, 1000U);
  EXPECT_EQ(small.allocated_size, 1024U);
  // 3 MiB idle, 0.5 MiB used, 0.5 MiB idle.
  ASSERT_EQ(large.blocks.size(), 3U);
  EXPECT_EQ(large.address, reinterpret_cast<std::size_t>(first));
  EXPECT_FALSE(large.blocks[0].active);
  EXPECT_EQ(large.blocks[0].size, static_cast<std::size_t>(3 * kMiB));
  EXPECT_TRUE(large.blocks[1].allocated);
  EXPECT_EQ(large.blocks[2].size, static_cast<std::size_t>(512 * kKiB));
  give(second);
  give(few);
}

TEST_F(HistoryTest, ABlockThatAStreamStillUsesIsActiveButNotAllocated) {
  {
    const c10::DataPtr block = allocator_->allocate(static_cast<std::size_t>(kPage));
    ++gpu().queued[stream(1)];
    allocator_->recordStream(block, torchStream(1));
  }
  const auto segments = allocator_->snapshot({0, 0}, false).segments;
  ASSERT_EQ(segments.size(), 1U);
  ASSERT_EQ(segments[0].blocks.size(), 1U);
  EXPECT_FALSE(segments[0].blocks[0].allocated);
  EXPECT_TRUE(segments[0].blocks[0].active);
  EXPECT_EQ(segments[0].allocated_size, 0U);
  EXPECT_EQ(segments[0].active_size, static_cast<std::size_t>(kPage));
}

TEST_F(HistoryTest, WhatHappensIsRecordedInOrder) {
  EXPECT_FALSE(allocator_->isHistoryEnabled());
  give(take(kPage));  // before: not recorded
  allocator_->emptyCache({0, 0});
  record(100);
  EXPECT_TRUE(allocator_->isHistoryEnabled());
  void* block = take(kPage - 100);
  give(block);
  allocator_->emptyCache({0, 0});
  allocator_->setMemoryFraction(0.0, 0);
  EXPECT_THROW(take(kPage), c10::OutOfMemoryError);
  const auto list = entries();
  ASSERT_EQ(list.size(), 7U);
  const std::vector<Action> expected = {
      Action::SEGMENT_MAP,   Action::ALLOC, Action::FREE_REQUESTED, Action::FREE_COMPLETED,
      Action::SEGMENT_UNMAP, Action::OOM,   Action::SNAPSHOT};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(list[i].action_, expected[i]) << i;
  EXPECT_EQ(list[0].addr_, reinterpret_cast<std::size_t>(block));
  EXPECT_EQ(list[0].size_, static_cast<std::size_t>(kPage));
  EXPECT_EQ(list[1].size_, static_cast<std::size_t>(kPage - 100)) << "as requested";
  EXPECT_EQ(list[5].addr_, static_cast<std::size_t>(gpu().total_bytes)) << "free bytes";
  EXPECT_EQ(list[0].context_, list[1].context_) << "the request that needed the pages";
  EXPECT_EQ(list[2].context_, list[3].context_) << "the call that freed";
  for (const std::size_t i : {1, 2, 5}) EXPECT_NE(list[i].context_, nullptr) << i;
  EXPECT_NE(list[1].context_, list[2].context_);
  for (std::size_t i = 1; i < list.size(); ++i) {
    EXPECT_GE(list[i].time_.t_, list[i - 1].time_.t_);
  }
}

TEST_F(HistoryTest, TheLatestEntriesAreKept) {
  record(4);
  for (int i = 1; i <= 10; ++i) give(take(i * 512));
  // Four entries an iteration at most: the last ones are of 10 * 512 bytes, and the snapshot's.
  const auto list = entries();
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0].action_, Action::ALLOC);
  EXPECT_EQ(list[0].size_, 5120U);
  EXPECT_EQ(list[1].action_, Action::FREE_REQUESTED);
  EXPECT_EQ(list[2].action_, Action::FREE_COMPLETED);
  EXPECT_EQ(list[3].action_, Action::SNAPSHOT);
}

TEST_F(HistoryTest, WhatIsSkippedIsNotRecorded) {
  record(100, {"free_requested", "segment_map", "snapshot"});
  give(take(512));
  EXPECT_EQ(actions(), (std::vector<Action>{Action::ALLOC, Action::FREE_COMPLETED}));
  EXPECT_THROW(record(100, {"no_such_action"}), c10::Error);
}

TEST_F(HistoryTest, ItEndsAndIsCleared) {
  record(100);
  give(take(512));
  allocator_->recordHistory(false, nullptr, 1, RecordContext::NEVER, false, {});
  EXPECT_TRUE(entries().empty());
  record(100);
  give(take(512));
  allocator_->recordHistory(true, &here, 100, RecordContext::ALL, true, {});
  EXPECT_EQ(actions(), std::vector<Action>{Action::SNAPSHOT});
  EXPECT_THROW(allocator_->recordHistory(true, nullptr, 1, RecordContext::STATE, false, {}),
               c10::Error);
}

TEST_F(HistoryTest, ContextsAreKeptAsLongAsWanted) {
  record(100, {}, RecordContext::STATE);
  void* block = take(kPage);
  EXPECT_NE(allocator_->snapshot({0, 0}, false).segments.at(0).blocks.at(0).context_when_allocated,
            nullptr);
  for (const TraceEntry& entry : entries()) EXPECT_EQ(entry.context_, nullptr);
  give(block);
}

TEST_F(HistoryTest, FollowersAreToldWithoutRecording) {
  std::vector<Action> seen;
  allocator_->attachAllocatorTraceTracker(
      [&](const TraceEntry& entry) { seen.push_back(entry.action_); });
  give(take(512));
  allocator_->emptyCache({0, 0});
  EXPECT_EQ(seen, (std::vector<Action>{Action::SEGMENT_MAP, Action::ALLOC, Action::FREE_REQUESTED,
                                       Action::FREE_COMPLETED, Action::SEGMENT_UNMAP}));
  EXPECT_TRUE(entries().empty());
}

TEST_F(HistoryTest, AFreeThatWaitsIsCompletedLater) {
  record(100, {"segment_map", "snapshot"});
  {
    const c10::DataPtr block = allocator_->allocate(static_cast<std::size_t>(kPage));
    ++gpu().queued[stream(1)];
    allocator_->recordStream(block, torchStream(1));
  }
  EXPECT_EQ(actions(), (std::vector<Action>{Action::ALLOC, Action::FREE_REQUESTED}));
  gpu().finishAll();
  void* again = take(kPage);
  EXPECT_EQ(actions(), (std::vector<Action>{Action::ALLOC, Action::FREE_REQUESTED,
                                            Action::FREE_COMPLETED, Action::ALLOC}));
  give(again);
}

TEST_F(HistoryTest, NotesOfTheProgramAreInEachEntry) {
  record(100, {"segment_map"});
  allocator_->setUserMetadata("epoch 3");
  EXPECT_EQ(allocator_->getUserMetadata(), "epoch 3");
  std::string graph = "graph 7";
  allocator_->pushCompileContext(graph);
  void* block = take(512);
  allocator_->popCompileContext();
  give(block);
  const auto list = entries();
  EXPECT_EQ(list.at(0).user_metadata_, "epoch 3");
  EXPECT_EQ(list.at(0).compile_context_, "graph 7");
  EXPECT_EQ(list.at(1).compile_context_, "N/A");
  allocator_->recordAnnotation({{"name", "forward"}});
  const auto notes = allocator_->snapshot({0, 0}, false).external_annotations;
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].metadata_.at("name"), "forward");
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
