// The allocator's core over a GPU's pages and events. It keeps nothing in the memory itself, so
// memory that is only counted will do.
#include "ebbtide/allocator/device_memory.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "ebbtide/allocator/cuda/address_space.hpp"
#include "ebbtide/allocator/cuda/stream_events.hpp"
#include "ebbtide/allocator/cuda/stream_names.hpp"
#include "fake_driver.hpp"

namespace ebbtide::allocator::cuda::test {
namespace {

class GpuMemoryTest : public FakeGpuTest {
 protected:
  GpuMemoryTest() {
    const Device device = open();
    memory_ = std::make_unique<DeviceMemory>(
        std::make_unique<CudaAddressSpace>(device), std::make_unique<CudaStreamEvents>(device),
        DeviceMemory::Options{.alignment_bytes = 512, .reserve_bytes = Bytes{1} << 30});
    memory_->limitOverrun(0);
    fake_.on_query = [this] { fake_.finished = fake_.queued; };  // the device is quick
  }
  ~GpuMemoryTest() override {
    memory_.reset();
    EXPECT_TRUE(fake_.handles.empty()) << "pages were lost";
    EXPECT_TRUE(fake_.events.empty()) << "events were lost";
  }

  // Is all of the block mapped?
  bool mapped(const void* block, Bytes bytes) const {
    const auto page = static_cast<CUdeviceptr>(kPage);
    const auto begin = reinterpret_cast<CUdeviceptr>(block);
    for (CUdeviceptr at = begin / page * page; at < begin + static_cast<CUdeviceptr>(bytes);
         at += page) {
      if (!fake_.mappings.contains(at)) return false;
    }
    return true;
  }

  std::unique_ptr<DeviceMemory> memory_;
};

TEST_F(GpuMemoryTest, LiveBlocksAreMappedAndNeverOverlap) {
  constexpr Bytes kBudget = 12 * kPage;  // of the device's 16
  memory_->setBudget(kBudget);
  std::mt19937 random(11);
  std::map<std::byte*, Bytes> live;
  int refused = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (live.size() > 60 || (!live.empty() && random() % 2 == 0)) {
      const auto gone =
          std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      if (random() % 4 == 0) {
        ++fake_.queued[stream(9)];
        memory_->recordStream(gone->first, nameOf(stream(9)));
      }
      memory_->deallocate(gone->first);
      live.erase(gone);
      continue;
    }
    const Bytes most = random() % 3 == 0 ? 3 * kPage : kPage / 64;
    const Bytes bytes = 1 + static_cast<Bytes>(random()) % most;
    const Stream on = nameOf(stream(1 + random() % 3));
    auto* block = static_cast<std::byte*>(memory_->allocate(static_cast<std::size_t>(bytes), on));
    ASSERT_LE(fake_.usedBytes(), kBudget);
    ASSERT_EQ(fake_.usedBytes(), memory_->statistics().mapped_bytes);
    if (block == nullptr) {
      ++refused;
      continue;
    }
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % 512, 0U);
    ASSERT_TRUE(mapped(block, bytes));
    const auto after = live.lower_bound(block);
    ASSERT_TRUE(after == live.end() || block + bytes <= after->first);
    ASSERT_TRUE(after == live.begin() ||
                std::prev(after)->first + std::prev(after)->second <= block);
    live[block] = bytes;
  }
  EXPECT_GT(refused, 0) << "the budget was never short";
  for (const auto& [block, bytes] : live) memory_->deallocate(block);
  memory_->releaseCached();
  EXPECT_EQ(fake_.usedBytes(), 0);
}

// The budget has room, the device none: the other stream's cache gives way.
TEST_F(GpuMemoryTest, AFullDeviceIsNoReasonToFail) {
  memory_->setBudget(64 * kPage);  // of 16
  memory_->deallocate(memory_->allocate(static_cast<std::size_t>(12 * kPage), nameOf(stream(1))));
  void* block = memory_->allocate(static_cast<std::size_t>(10 * kPage), nameOf(stream(2)));
  EXPECT_NE(block, nullptr);
  memory_->deallocate(block);
}

// What was freed may still be in use by what is queued, until the device is idle.
TEST_F(GpuMemoryTest, PagesAreNotUnmappedWhileTheDeviceIsBusy) {
  fake_.on_query = nullptr;
  fake_.refused = {"contextRecordEvent"};  // as while a graph is captured
  memory_->deallocate(memory_->allocate(static_cast<std::size_t>(4 * kPage), nameOf(stream(1))));
  memory_->releaseCached();
  EXPECT_EQ(fake_.usedBytes(), 4 * kPage);
  fake_.refused.clear();
  memory_->releaseCached();
  EXPECT_EQ(fake_.usedBytes(), 0);
}

}  // namespace
}  // namespace ebbtide::allocator::cuda::test
