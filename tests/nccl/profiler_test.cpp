// The library as NCCL uses it: found by name, loaded, driven through its table from several
// threads. NCCL itself has run it nowhere yet: it starts no communicator without a GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "nccl/open_operations.hpp"
#include "nccl/profiler_interface.hpp"
#include "nccl/waits_interface.h"

namespace ebbtide::plugin::nccl {
namespace {

// NCCL's layout on 64-bit machines.
static_assert(offsetof(Descriptor<std::uint64_t>, parent) == 8);
static_assert(offsetof(Descriptor<std::uint64_t>, collective) == 24);
static_assert(offsetof(Descriptor<std::uint8_t>, collective) == 24);
static_assert(offsetof(CollectiveDescriptor, count) == 32);
static_assert(offsetof(CollectiveDescriptor, channels) == 56);
static_assert(offsetof(PointToPointDescriptor, peer) == 32);
static_assert(offsetof(PointToPointDescriptor, channels) == 36);
static_assert(offsetof(KernelChannelDescriptor, device_ns) == 8);

using Event5 = Descriptor<std::uint64_t>;

class ProfilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    library_ = dlopen(EBBTIDE_NCCL_PROFILER, RTLD_NOW | RTLD_LOCAL);  // the session's
    ASSERT_NE(library_, nullptr) << dlerror();
    // What NCCL does for NCCL_PROFILER_PLUGIN=ebbtide: the name alone is not found, this one is.
    void* const found = dlopen("libnccl-profiler-ebbtide.so", RTLD_NOW | RTLD_LOCAL);
    ASSERT_EQ(found, library_) << "by its name, because it is loaded already";
    profiler_ = symbol<ProfilerV5*>("ncclProfiler_v5");
    older_ = symbol<ProfilerV4*>("ncclProfiler_v4");
    watch_ = symbol<ebbtide_nccl_watch_t>("ebbtide_nccl_watch");
    totals_ = symbol<ebbtide_nccl_totals_t>("ebbtide_nccl_totals");
    since_ = symbol<ebbtide_nccl_waits_since_t>("ebbtide_nccl_waits_since");
    ASSERT_TRUE(profiler_ && older_ && watch_ && totals_ && since_);
    watch_(true);
    EXPECT_EQ(profiler_->init(&context_, 0xabc, &mask_, "group", 1, 2, 0, nullptr), kSuccess);
    drain();
    before_ = totals();
  }

  template <typename T>
  T symbol(const char* name) {
    return reinterpret_cast<T>(dlsym(library_, name));
  }
  CommunicationTotals totals() {
    CommunicationTotals all;
    totals_(&all);
    return all;
  }
  std::vector<CommunicationWait> drain() {
    std::vector<CommunicationWait> all(2 * CommunicationWaits::kKept);
    std::size_t count = 0;
    for (std::size_t copied = 1; copied > 0 && count < all.size(); count += copied)
      copied = since_(&cursor_, all.data() + count, all.size() - count, nullptr);
    all.resize(count);
    return all;
  }
  // Counted since the test began.
  std::int64_t operations(CommunicationKind kind) {
    return totals()[kind].operations - before_[kind].operations;
  }

  static Event5 collective(const char* function, std::size_t count, int channels) {
    Event5 event{};
    event.type = kCollective;
    event.collective = {.sequence_number = 0,
                        .function = function,
                        .send_buffer = nullptr,
                        .receive_buffer = nullptr,
                        .count = count,
                        .root = 0,
                        .data_type = "ncclBfloat16",
                        .channels = static_cast<std::uint8_t>(channels),
                        .warps = 8,
                        .algorithm = "Ring",
                        .protocol = "Simple",
                        .parent_group = nullptr};
    return event;
  }
  template <typename Type = std::uint64_t>
  static Descriptor<Type> message(const char* function, int peer, std::size_t count) {
    Descriptor<Type> event{};
    event.type = kPointToPoint;
    event.point_to_point = {.function = function,
                            .buffer = nullptr,
                            .data_type = "ncclFloat32",
                            .count = count,
                            .peer = peer,
                            .channels = 1,
                            .parent_group = nullptr};
    return event;
  }
  template <typename Type = std::uint64_t>
  static Descriptor<Type> channelOf(void* parent, std::uint64_t device_ns) {
    Descriptor<Type> event{};
    event.type = kKernelChannel;
    event.parent = parent;
    event.kernel_channel = {.channel = 0, .device_ns = device_ns};
    return event;
  }
  void* start(Event5 event) {
    void* handle = &event;  // no pointer that NCCL had there is kept
    EXPECT_EQ(profiler_->startEvent(context_, &handle, &event), kSuccess);
    return handle;
  }
  void runChannel(void* parent, std::uint64_t begin_ns, std::uint64_t end_ns) {
    void* const handle = start(channelOf(parent, begin_ns));
    StateArguments arguments{};
    arguments.kernel_channel.device_ns = end_ns;
    profiler_->recordEventState(handle, kKernelChannelStop, &arguments);
    profiler_->stopEvent(handle);
  }

  void* library_ = nullptr;
  ProfilerV5* profiler_ = nullptr;
  ProfilerV4* older_ = nullptr;
  ebbtide_nccl_watch_t watch_ = nullptr;
  ebbtide_nccl_totals_t totals_ = nullptr;
  ebbtide_nccl_waits_since_t since_ = nullptr;
  void* context_ = nullptr;
  int mask_ = 0;
  std::uint64_t cursor_ = 0;
  CommunicationTotals before_;
};

TEST_F(ProfilerTest, AsksForOperationsAndTheirKernels) {
  EXPECT_STREQ(profiler_->name, "ebbtide");
  EXPECT_EQ(mask_, 2 + 4 + 64);
  EXPECT_NE(context_, nullptr) << "NCCL ends only communicators that have one";
  watch_(false);
  EXPECT_EQ(mask_, 0) << "NCCL reads it at each operation";
  watch_(true);
  EXPECT_EQ(mask_, 2 + 4 + 64);
  EXPECT_EQ(profiler_->finalize(context_), kSuccess);
}

// 1,000 elements of two bytes, on two channels, 300 ns by the device's clock.
TEST_F(ProfilerTest, ACollectiveIsAWait) {
  void* const handle = start(collective("AllReduce", 1000, 2));
  ASSERT_NE(handle, nullptr);
  profiler_->stopEvent(handle);
  runChannel(handle, 7000, 7200);
  runChannel(handle, 7100, 7300);
  const auto waits = drain();
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].kind, CommunicationKind::kAllReduce);
  EXPECT_EQ(waits[0].bytes, 2000);
  EXPECT_EQ(waits[0].peer, -1);
  EXPECT_EQ(waits[0].communicator, 0xabcU);
  EXPECT_EQ(waits[0].device_ns, 300);
  EXPECT_LE(waits[0].asked_ns, waits[0].begin_ns);
  EXPECT_LE(waits[0].begin_ns, waits[0].end_ns);
  EXPECT_EQ(operations(CommunicationKind::kAllReduce), 1);
  EXPECT_EQ(
      totals()[CommunicationKind::kAllReduce].bytes - before_[CommunicationKind::kAllReduce].bytes,
      2000);
}

TEST_F(ProfilerTest, KindsByTheirNames) {
  const std::vector<std::pair<const char*, CommunicationKind>> names = {
      {"AllGather", CommunicationKind::kAllGather},
      {"ReduceScatter", CommunicationKind::kReduceScatter},
      {"Broadcast", CommunicationKind::kBroadcast},
      {"Reduce", CommunicationKind::kReduce},
      {"AlltoAll", CommunicationKind::kAllToAll},
      {"Gather", CommunicationKind::kOther},
      {nullptr, CommunicationKind::kOther}};
  for (const auto& [name, kind] : names) {
    void* const handle = start(collective(name, 1, 1));
    profiler_->stopEvent(handle);
    runChannel(handle, 1, 2);
    const auto waits = drain();
    ASSERT_EQ(waits.size(), 1U);
    EXPECT_EQ(waits[0].kind, kind) << (name ? name : "none");
  }
}

// Version 4, as NCCL 2.27 calls it: how many channels a message has is not said there.
TEST_F(ProfilerTest, OlderReleasesCallVersion4) {
  void* context = nullptr;
  int mask = 0;
  EXPECT_EQ(older_->init(&context, &mask, nullptr, 0xdef, 1, 2, 1, nullptr), kSuccess);
  EXPECT_EQ(mask, mask_);
  auto event = message<std::uint8_t>("Recv", 5, 10);
  event.point_to_point.channels = 200;  // what was in memory
  void* handle = nullptr;
  older_->startEvent(context, &handle, &event);
  older_->stopEvent(handle);
  auto inner = channelOf<std::uint8_t>(handle, 100);
  void* channel = nullptr;
  older_->startEvent(context, &channel, &inner);
  StateArguments arguments{};
  arguments.kernel_channel.device_ns = 450;
  older_->recordEventState(channel, kKernelChannelStop, &arguments);
  older_->stopEvent(channel);
  std::this_thread::sleep_for(std::chrono::nanoseconds(OpenOperations::kQuietNs));
  const auto waits = drain();
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].kind, CommunicationKind::kReceive);
  EXPECT_EQ(waits[0].peer, 5);
  EXPECT_EQ(waits[0].bytes, 40);
  EXPECT_EQ(waits[0].communicator, 0xdefU);
  EXPECT_EQ(waits[0].device_ns, 350);
}

// What must never happen to NCCL: a failure. So whatever comes, succeeds.
TEST_F(ProfilerTest, AnythingSucceeds) {
  EXPECT_EQ(profiler_->init(nullptr, 0, nullptr, nullptr, 0, 0, 0, nullptr), kSuccess);
  EXPECT_EQ(profiler_->startEvent(nullptr, nullptr, nullptr), kSuccess);
  EXPECT_EQ(profiler_->stopEvent(nullptr), kSuccess);
  EXPECT_EQ(profiler_->recordEventState(nullptr, kKernelChannelStop, nullptr), kSuccess);
  Event5 other{};
  other.type = 1 << 3;  // a kind that was not asked for
  EXPECT_EQ(start(other), nullptr);
  EXPECT_EQ(start(channelOf(nullptr, 0)), nullptr) << "of an operation that was not watched";
  Event5 huge = collective("AllReduce", static_cast<std::size_t>(-1), 1);
  huge.collective.data_type = nullptr;
  void* const handle = start(huge);
  profiler_->stopEvent(handle);
  void* const channel = start(channelOf(handle, 0));
  EXPECT_EQ(profiler_->recordEventState(channel, 999, nullptr), kSuccess);
  EXPECT_EQ(profiler_->stopEvent(channel), kSuccess);
  EXPECT_EQ(profiler_->stopEvent(channel), kSuccess) << "once more";
  EXPECT_EQ(profiler_->stopEvent(reinterpret_cast<void*>(~std::uintptr_t{0})), kSuccess);
  const auto waits = drain();
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].bytes, 0);
}

[[maybe_unused]] std::int64_t residentBytes() {
  std::int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * 4096;
}

// Four communicators, each with a thread that calls and one that polls: 4 x 62,500 operations of 4
// events each, 10^6 in all, while a reader reads. All are counted, in memory that stays.
TEST_F(ProfilerTest, AMillionEventsFromManyThreadsInBoundedMemory) {
  constexpr int kCommunicators = 4;
  constexpr std::int64_t kEach = 62'500;
  constexpr std::size_t kQueue = 64;
  struct Queue {
    std::array<std::atomic<void*>, kQueue> places{};
  };
  std::vector<Queue> queues(kCommunicators);
  std::atomic<int> polling{kCommunicators};
  std::vector<std::thread> threads;
  [[maybe_unused]] const std::int64_t resident = residentBytes();
  for (int i = 0; i < kCommunicators; ++i) {
    threads.emplace_back([&, i] {
      void* context = nullptr;
      // One mask for all of them, as in NCCL.
      profiler_->init(&context, static_cast<std::uint64_t>(i) + 1, &mask_, nullptr, 1, 2, 0,
                      nullptr);
      for (std::int64_t n = 0; n < kEach; ++n) {
        Event5 event = message(n % 2 == 0 ? "Send" : "Recv", 1, 1);
        void* handle = nullptr;
        profiler_->startEvent(context, &handle, &event);
        auto& place =
            queues[static_cast<std::size_t>(i)].places[static_cast<std::size_t>(n) % kQueue];
        while (place.load() != nullptr) std::this_thread::yield();
        // A lost one goes to the other thread as well.
        place.store(handle != nullptr ? handle : this);
        profiler_->stopEvent(handle);
      }
    });
    threads.emplace_back([&, i] {
      for (std::int64_t n = 0; n < kEach; ++n) {
        auto& place =
            queues[static_cast<std::size_t>(i)].places[static_cast<std::size_t>(n) % kQueue];
        void* handle = nullptr;
        while ((handle = place.load()) == nullptr) std::this_thread::yield();
        if (handle != this) runChannel(handle, 1000, 1100);
        place.store(nullptr);
      }
      --polling;
    });
  }
  std::uint64_t read = 0;
  std::vector<CommunicationWait> out(1024);
  for (bool last = false; !last;) {
    last = polling == 0;
    std::uint64_t missed = 0;
    const std::size_t copied = since_(&cursor_, out.data(), out.size(), &missed);
    read += copied + missed;
    for (std::size_t i = 0; i < copied; ++i) ASSERT_EQ(out[i].device_ns, 100);
  }
  for (auto& thread : threads) thread.join();
  for (std::uint64_t missed = 0;;) {
    const std::size_t copied = since_(&cursor_, out.data(), out.size(), &missed);
    read += copied + missed;
    if (copied + missed == 0) break;
  }
  const std::int64_t sends = operations(CommunicationKind::kSend);
  const std::int64_t receives = operations(CommunicationKind::kReceive);
  const std::int64_t lost = totals().lost - before_.lost;
  EXPECT_LE(sends, kCommunicators * kEach / 2);
  EXPECT_LE(receives, kCommunicators * kEach / 2);
  // While a thread is stopped the others may go round all places: its operation is given up.
  const std::int64_t unseen = totals().unseen - before_.unseen;
  EXPECT_GE(sends + receives + lost + unseen, kCommunicators * kEach);
  EXPECT_LE(sends + receives + unseen, kCommunicators * kEach);
  EXPECT_LE(read, static_cast<std::uint64_t>(sends + receives));
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // they take memory themselves
  // A list of the operations would take 250,000 x 64 bytes: 15 MiB.
  EXPECT_LT(residentBytes() - resident, 8 << 20);
#endif
}

}  // namespace
}  // namespace ebbtide::plugin::nccl
