#include "record/log/event_log.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace ebbtide::plugin {
namespace {

using Kind = scheduler::TraceEvent::Kind;

TEST(EventLog, BlocksKeepTheirIdsAndAddressesAreReused) {
  EventLog log(1000);
  int a = 0;
  int b = 0;
  log.onAllocate(&a, 64);  // block 0
  EXPECT_EQ(log.blockAt(&a, 64), 0);
  log.onFree(&a, 64);
  log.onAllocate(&a, 128);  // block 1 at the same address
  EXPECT_EQ(log.blockAt(&a, 128), 1);
  EXPECT_EQ(log.blockAt(&b, 32), 2);  // was there before the step
  log.onFree(&b, 32);
  scheduler::Trace trace;
  log.moveInto(trace);
  EXPECT_EQ(trace.base_bytes, 1000);
  ASSERT_EQ(trace.blocks.size(), 3u);
  EXPECT_FALSE(trace.blocks[1].before_step);
  EXPECT_TRUE(trace.blocks[2].before_step);
  ASSERT_EQ(trace.events.size(), 4u);
  EXPECT_EQ(trace.events[3].kind, Kind::kFree);
  EXPECT_EQ(trace.events[3].id, 2);
}

// Of those that the step made it is known. The memory takes locks of its own: it is asked without
// the log's, or this would not end.
TEST(EventLog, AsksHowLargeABlockFromBeforeTheStepIsAndOfNoOther) {
  struct Memory final : allocator::MemoryResource {
    explicit Memory(const EventLog& of) : log(of) {}
    void* allocate(std::size_t, allocator::Stream) noexcept override { return nullptr; }
    void deallocate(void*) noexcept override {}
    allocator::Bytes blockBytes(const void*) const noexcept override {
      ++asked;
      EXPECT_FALSE(log.ranBackward());  // takes the log's lock
      return 32;
    }
    void recordStream(void*, allocator::Stream) noexcept override {}
    const EventLog& log;
    mutable int asked = 0;
  };
  EventLog log(0);
  const Memory memory(log);
  int a = 0;
  int b = 0;
  log.onAllocate(&a, 64);
  EXPECT_EQ(log.blockAt(&a, memory), 0);
  EXPECT_EQ(memory.asked, 0);
  EXPECT_EQ(log.blockAt(&b, memory), 1);
  EXPECT_EQ(log.blockAt(&b, memory), 1);
  EXPECT_EQ(memory.asked, 1);
  scheduler::Trace trace;
  log.moveInto(trace);
  EXPECT_EQ(trace.blocks[1].bytes, 32);
  EXPECT_TRUE(trace.blocks[1].before_step);
}

// Noted when a block comes or goes, and only where it is another one: 4096 before the step, 8192 at
// the second block, 0 when the first one is freed.
TEST(EventLog, NotesWhatIsMappedWheneverThatChanges) {
  allocator::BudgetTracker tracker;
  ASSERT_TRUE(tracker.debit(4096));
  EventLog log(0, &tracker);
  int a = 0;
  int b = 0;
  log.onAllocate(&a, 64);
  ASSERT_TRUE(tracker.debit(4096));
  log.onAllocate(&b, 64);
  tracker.credit(8192);
  log.onFree(&a, 64);
  log.onFree(&b, 64);
  scheduler::Trace trace;
  log.moveInto(trace);
  ASSERT_EQ(trace.mapped.size(), 3u);
  EXPECT_EQ(trace.mapped[0], (scheduler::TraceMapped{0, 4096}));
  EXPECT_EQ(trace.mapped[1], (scheduler::TraceMapped{trace.events[1].at_ns, 8192}));
  EXPECT_EQ(trace.mapped[2], (scheduler::TraceMapped{trace.events[2].at_ns, 0}));
}

TEST(EventLog, OurOwnAllocationsAreMarked) {
  EventLog log(0);
  int a = 0;
  int b = 0;
  log.onAllocate(&a, 64);
  {
    EventLog::OursScope outer;
    EventLog::OursScope inner;
    log.onAllocate(&b, 64);
  }
  int c = 0;
  log.onAllocate(&c, 64);
  scheduler::Trace trace;
  log.moveInto(trace);
  EXPECT_FALSE(trace.blocks[0].ours);
  EXPECT_TRUE(trace.blocks[1].ours);
  EXPECT_FALSE(trace.blocks[2].ours);
}

TEST(EventLog, RestsFromItsLastSavedTensorToTheNextOp) {
  using std::chrono::hours;
  using std::chrono::seconds;
  EventLog log(0);
  EXPECT_TRUE(log.restsSince(hours(1)));  // nothing has been saved
  log.noteUse();
  EXPECT_FALSE(log.restsSince(seconds(0)));
  log.rest();
  EXPECT_TRUE(log.restsSince(seconds(0)));
  EXPECT_FALSE(log.restsSince(hours(1)));
  log.addNode("MulBackward0");  // of the backward pass that released the last one
  EXPECT_TRUE(log.restsSince(seconds(0)));
  log.add(Kind::kOpBegin, 0);
  EXPECT_FALSE(log.restsSince(seconds(0)));
}

TEST(EventLog, CountsBackwardPasses) {
  EventLog log(0);
  for (const Kind kind : {Kind::kBackwardPass, Kind::kBackwardNode, Kind::kBackwardPass})
    log.add(kind, 0);
  EXPECT_EQ(log.passes(), 2);
}

// Half of at least 16 saved tensors: released are 15 of 15, 15 of 16, 15 of 30 and of 31, 16 of 31;
// 15 of these unread, once one was read, then 16 again.
TEST(EventLog, LosesUsesThatAreLetGoOfInAForwardPass) {
  EventLog log(0);
  const auto save = [&log](int uses) {
    for (int use = 0; use < uses; ++use) log.noteUse();
  };
  save(15);
  for (int use = 0; use < 15; ++use) log.add(Kind::kRelease, use);
  EXPECT_FALSE(log.losesUses());
  save(1);
  EXPECT_TRUE(log.losesUses());
  save(14);
  EXPECT_TRUE(log.losesUses());
  save(1);
  EXPECT_FALSE(log.losesUses());
  log.add(Kind::kRelease, 15);
  EXPECT_TRUE(log.losesUses());
  log.add(Kind::kUnpack, 16);  // what trains does so before each release
  EXPECT_FALSE(log.losesUses());
  log.add(Kind::kRelease, 16);
  EXPECT_TRUE(log.losesUses());
}

TEST(EventLog, ErasedEventsLeaveTheRest) {
  EventLog log(0);
  int a = 0;
  const std::size_t begin = log.add(Kind::kOpBegin, 0);
  log.onAllocate(&a, 8);
  log.erase(begin);
  scheduler::Trace trace;
  log.moveInto(trace);
  ASSERT_EQ(trace.events.size(), 1u);
  EXPECT_EQ(trace.events[0].kind, Kind::kAlloc);
}

TEST(EventLog, LiveBlocksAreToldWithTheirOps) {
  EventLog log(0);
  int before = 0;
  int data = 0;
  int output = 0;
  int workspace = 0;
  int gradient = 0;
  log.blockAt(&before, 64);
  log.onAllocate(&data, 64);
  EXPECT_TRUE(log.liveBlocks()[0].before_ops);
  log.add(Kind::kOpBegin, 7);
  log.onAllocate(&workspace, 64);
  log.onAllocate(&output, 64);
  log.onFree(&workspace, 64);
  log.add(Kind::kOpEnd, 7);
  log.addNode("MulBackward0");
  log.onAllocate(&gradient, 64);
  log.noteUpdated();
  int evaluated = 0;
  log.onAllocate(&evaluated, 64);
  const auto live = log.liveBlocks();
  ASSERT_EQ(live.size(), 4U);  // what was there before is none of the step's
  EXPECT_EQ(live[0].block, &data);
  EXPECT_EQ(live[0].op, scheduler::kNone);
  EXPECT_FALSE(live[0].since_backward);
  EXPECT_TRUE(live[0].before_ops);
  EXPECT_FALSE(live[1].before_ops);
  EXPECT_EQ(live[1].block, &output);
  EXPECT_EQ(live[1].op, 7);
  EXPECT_EQ(live[2].block, &gradient);
  EXPECT_EQ(live[2].op, scheduler::kNone);
  EXPECT_TRUE(live[2].since_backward);
  EXPECT_FALSE(live[2].after_update);
  EXPECT_TRUE(live[3].after_update);
  log.noteUpdated();  // of the next parameter, by hand
  EXPECT_FALSE(log.liveBlocks()[3].after_update);
  scheduler::Trace trace;
  log.moveInto(trace);
  EXPECT_TRUE(log.liveBlocks().empty());
}

// A message that is told later, of before the update, moves it on by one.
TEST(EventLog, WhereTheUpdateWasOverGoesIntoTheTrace) {
  for (const bool message : {false, true}) {
    EventLog log(0);
    const ThreadMoment before = ThreadMoment::now();
    int block = 0;
    log.addNode("MulBackward0");
    log.noteUpdated();
    log.onAllocate(&block, 64);
    if (message) log.addMessage({.group = "pipe", .rank = 0, .size = 1}, before);
    scheduler::Trace trace;
    log.moveInto(trace);
    EXPECT_EQ(trace.updated_at, message ? 2 : 1);
    EXPECT_EQ(trace.events.at(static_cast<std::size_t>(trace.updated_at)).kind, Kind::kAlloc);
  }
  // An event that is taken out, of before the update, moves it back by one; one of after it, or
  // where there is no update, does not.
  for (const bool before : {false, true}) {
    EventLog log(0);
    const std::size_t first = log.add(Kind::kOpBegin, 0);
    log.noteUpdated();
    const std::size_t second = log.add(Kind::kOpBegin, 1);
    log.add(Kind::kOpEnd, 2);
    log.erase(before ? first : second);
    scheduler::Trace trace;
    log.moveInto(trace);
    EXPECT_EQ(trace.updated_at, before ? 0 : 1);
  }
  EventLog none(0);
  none.erase(none.add(Kind::kOpBegin, 0));
  scheduler::Trace without;
  none.moveInto(without);
  EXPECT_EQ(without.updated_at, scheduler::kNone);
  scheduler::Trace trace;
  EventLog(0).moveInto(trace);
  EXPECT_EQ(trace.updated_at, scheduler::kNone);
}

}  // namespace
}  // namespace ebbtide::plugin
