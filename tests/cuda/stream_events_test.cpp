#include "ebbtide/allocator/cuda/stream_events.hpp"

#include "ebbtide/allocator/cuda/stream_names.hpp"
#include "fake_driver.hpp"

namespace ebbtide::allocator::cuda::test {
namespace {

using std::chrono::seconds;
using Event = StreamEvents::Event;

class CudaStreamEventsTest : public FakeGpuTest {
 protected:
  ~CudaStreamEventsTest() override {
    events_.reset();
    EXPECT_TRUE(fake_.events.empty()) << "events were lost";
  }
  void queue(CUstream stream) { ++fake_.queued[stream]; }
  void finish(CUstream stream) { fake_.finished[stream] = fake_.queued[stream]; }

  std::unique_ptr<CudaStreamEvents> events_ = std::make_unique<CudaStreamEvents>(open());
};

TEST_F(CudaStreamEventsTest, AnEventIsDoneWhenWhatWasQueuedBeforeItIs) {
  queue(stream(1));
  const Event event = events_->record(nameOf(stream(1)));
  queue(stream(1));
  EXPECT_FALSE(events_->isDone(event));
  fake_.finished[stream(1)] = 1;  // of two
  EXPECT_TRUE(events_->isDone(event));
  events_->recycle(event);
}

TEST_F(CudaStreamEventsTest, EventsAreMadeOnce) {
  for (int i = 0; i < 5; ++i) events_->recycle(events_->record(nameOf(stream(1))));
  EXPECT_EQ(fake_.count("eventCreate"), 1);
}

TEST_F(CudaStreamEventsTest, AFurtherNameOfAStreamIsTheStream) {
  const StreamAlias alias{stream(3)};
  EXPECT_NE(nameOf(alias), nameOf(stream(3)));
  EXPECT_EQ(handleOf(nameOf(alias)), stream(3));
  EXPECT_EQ(handleOf(Stream::kDefault), nullptr);
  EXPECT_EQ(handleOf(nameOf(CU_STREAM_LEGACY)), CU_STREAM_LEGACY);
  EXPECT_EQ(handleOf(nameOf(CU_STREAM_PER_THREAD)), CU_STREAM_PER_THREAD);
  queue(stream(3));
  const Event event = events_->record(nameOf(alias));
  EXPECT_FALSE(events_->isDone(event));
  finish(stream(3));
  EXPECT_TRUE(events_->isDone(event));
  events_->recycle(event);
}

TEST_F(CudaStreamEventsTest, NothingIsRecordedIntoAGraph) {
  fake_.capturing = {stream(1)};
  EXPECT_EQ(events_->record(nameOf(stream(1))), Event::kNone);
  const Event event = events_->record(nameOf(stream(2)));
  EXPECT_NE(event, Event::kNone) << "another stream is not captured";
  events_->recycle(event);
}

TEST_F(CudaStreamEventsTest, WhatTheDriverRefusesNeverTells) {
  fake_.refused = {"eventCreate"};
  EXPECT_EQ(events_->record(nameOf(stream(1))), Event::kNone);
  fake_.refused = {"eventRecord"};
  EXPECT_EQ(events_->record(nameOf(stream(1))), Event::kNone);
  EXPECT_FALSE(events_->isDone(Event::kNone));
  EXPECT_TRUE(events_->isDone(Event::kDone));
  events_->recycle(Event::kNone);
  events_->recycle(Event::kDone);
  fake_.refused = {"eventQuery"};  // as after an error of a kernel
  const Event event = events_->record(nameOf(stream(1)));
  EXPECT_FALSE(events_->isDone(event));
  events_->recycle(event);
}

TEST_F(CudaStreamEventsTest, TheWaitForAllStreamsEnds) {
  queue(stream(1));
  queue(stream(2));
  EXPECT_FALSE(events_->synchronize(std::chrono::milliseconds{1})) << "nothing finishes";
  int queries = 0;
  fake_.on_query = [&] {
    if (++queries == 3) fake_.finished = fake_.queued;
  };
  EXPECT_TRUE(events_->synchronize(seconds{60}));
  EXPECT_EQ(queries, 3);
  EXPECT_EQ(fake_.count("eventCreate"), 1) << "its event is pooled, too";
  fake_.refused = {"contextRecordEvent"};  // a stream is being captured
  EXPECT_FALSE(events_->synchronize(seconds{60}));
}

TEST_F(FakeGpuTest, AnOlderDriverWaitsForTheContext) {
  driver_.contexts.recordEvent = nullptr;
  CudaStreamEvents events(open());
  EXPECT_EQ(fake_.count("eventCreate"), 0);
  ++fake_.queued[stream(1)];
  EXPECT_TRUE(events.synchronize(seconds{1}));
  EXPECT_EQ(fake_.count("contextSynchronize"), 1);
  fake_.refused = {"contextSynchronize"};
  EXPECT_FALSE(events.synchronize(seconds{1}));
}

}  // namespace
}  // namespace ebbtide::allocator::cuda::test
