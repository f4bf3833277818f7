// GPUs for the tests: host memory in pages of 2 MiB, and streams whose work is done when a test
// says so. Everything of the adapter but the driver itself runs over them.
#pragma once

#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cuda/cuda_allocator.hpp"
#include "ebbtide/allocator/cuda/stream_names.hpp"
#include "ebbtide/allocator/host_address_space.hpp"

namespace ebbtide::plugin::cuda::test {

inline constexpr Bytes kKiB = 1024;
inline constexpr Bytes kMiB = 1024 * kKiB;
inline constexpr Bytes kPage = 2 * kMiB;

struct HostGpu {
  Bytes total_bytes = 256 * kMiB;
  Bytes others_bytes = 0;  // in use by other processes and libraries
  Bytes mapped_bytes = 0;
  Bytes most_used_bytes = 0;  // of both, when pages were mapped

  std::map<cudaStream_t, long> queued, finished;  // kernels, by stream
  std::set<cudaStream_t> capturing;
  int asked = 0;         // queries and waits
  bool answers = false;  // to a wait for all streams: they finish

  struct Event {
    cudaStream_t stream;
    long position;
  };
  std::map<std::uint64_t, Event> events;
  std::uint64_t next_event = 1;

  void finishAll() { finished = queued; }
  allocator::cuda::MemoryInfo memoryInfo() const {
    return {.free_bytes = total_bytes - others_bytes - mapped_bytes, .total_bytes = total_bytes};
  }
};

class HostGpuSpace final : public allocator::AddressSpace {
 public:
  explicit HostGpuSpace(HostGpu& gpu) : gpu_(gpu) {}

  Bytes pageBytes() const noexcept override { return kPage; }
  void* reserve(Bytes bytes) noexcept override { return host_->reserve(bytes); }
  void release(void* begin, Bytes bytes) noexcept override { host_->release(begin, bytes); }
  bool map(void* begin, Bytes bytes) noexcept override {
    EXPECT_EQ(bytes % kPage, 0);
    if (gpu_.others_bytes + gpu_.mapped_bytes + bytes > gpu_.total_bytes) return false;
    if (!host_->map(begin, bytes)) return false;
    gpu_.mapped_bytes += bytes;
    gpu_.most_used_bytes = std::max(gpu_.most_used_bytes, gpu_.mapped_bytes + gpu_.others_bytes);
    return true;
  }
  void unmap(void* begin, Bytes bytes) noexcept override {
    EXPECT_EQ(bytes % kPage, 0);
    host_->unmap(begin, bytes);
    gpu_.mapped_bytes -= bytes;
  }

 private:
  HostGpu& gpu_;
  const std::unique_ptr<allocator::AddressSpace> host_ = allocator::makeHostAddressSpace();
};

class HostGpuEvents final : public allocator::StreamEvents {
 public:
  explicit HostGpuEvents(HostGpu& gpu) : gpu_(gpu) {}

  Event record(allocator::Stream name) noexcept override {
    const cudaStream_t stream = allocator::cuda::handleOf(name);
    if (gpu_.capturing.contains(stream)) return Event::kNone;
    const std::uint64_t event = gpu_.next_event++;
    gpu_.events[event] = {.stream = stream, .position = gpu_.queued[stream]};
    return Event{event};
  }
  bool isDone(Event event) noexcept override {
    ++gpu_.asked;
    const HostGpu::Event& recorded = gpu_.events.at(static_cast<std::uint64_t>(event));
    return gpu_.finished[recorded.stream] >= recorded.position;
  }
  void recycle(Event event) noexcept override {
    gpu_.events.erase(static_cast<std::uint64_t>(event));
  }
  bool synchronize(std::chrono::nanoseconds) noexcept override {
    ++gpu_.asked;
    if (gpu_.answers) gpu_.finishAll();
    return gpu_.queued == gpu_.finished;
  }

 private:
  HostGpu& gpu_;
};

inline constexpr allocator::DeviceMemory::Options kHostGpuOptions = {
    .alignment_bytes = 512,
    .reserve_bytes = Bytes{1} << 30,
    .longest_wait = std::chrono::milliseconds{1}};

class HostSource final : public DeviceSource {
 public:
  DeviceParts open(c10::DeviceIndex index) override {
    HostGpu& gpu = gpus[static_cast<std::size_t>(index)];
    ++opened;
    DeviceParts parts;
    parts.space = std::make_unique<HostGpuSpace>(gpu);
    parts.events = std::make_unique<HostGpuEvents>(gpu);
    parts.options = kHostGpuOptions;
    parts.measure_every = measure_every;
    parts.memory_info = [&gpu] { return gpu.memoryInfo(); };
    return parts;
  }
  c10::DeviceIndex currentDevice() override { return device; }
  cudaStream_t currentStream(c10::DeviceIndex) override { return stream; }

  HostSource() { gpus[1].next_event = 1000; }  // an event's handle is of one device

  std::array<HostGpu, 2> gpus;
  std::chrono::nanoseconds measure_every = std::chrono::hours{1};
  int opened = 0;
  c10::DeviceIndex device = 0;
  cudaStream_t stream = nullptr;
};

class CudaAllocatorTest : public ::testing::Test {
 protected:
  CudaAllocatorTest() { make(allocator::kUnlimited); }

  void make(Bytes budget) {
    allocator_.reset();
    auto source = std::make_unique<HostSource>();
    source_ = source.get();
    allocator_ = std::make_unique<CudaAllocator>(
        std::move(source), [budget](const DeviceHeap&) { return budget; },
        [this](const std::string& text) { said_.push_back(text); });
    allocator_->init(2);
  }

  static cudaStream_t stream(std::uintptr_t number) {
    return reinterpret_cast<cudaStream_t>(number * 0x1000);
  }
  static c10::cuda::CUDAStream torchStream(std::uintptr_t number, c10::DeviceIndex device = 0) {
    return c10::cuda::getStreamFromExternal(stream(number), device);
  }
  HostGpu& gpu() { return source_->gpus[0]; }
  void* take(Bytes bytes) { return allocator_->raw_alloc(static_cast<std::size_t>(bytes)); }
  // As torch does it. After 2.11 an allocation to a pool alone is no capture.
  void beginCapture(const c10::MempoolId_t& graph, std::function<bool(cudaStream_t)> filter) {
    allocator_->beginAllocateToPool(0, graph, std::move(filter));
    allocator_->markCaptureBegin(0);
  }
  void endCapture(const c10::MempoolId_t& graph) {
    allocator_->markCaptureEnd(0);
    allocator_->endAllocateToPool(0, graph);
  }

  void* take(Bytes bytes, cudaStream_t on) {
    return allocator_->raw_alloc_with_stream(static_cast<std::size_t>(bytes), on);
  }
  void give(void* block) { allocator_->raw_delete(block); }
  DeviceStatistics::Torch stats() { return allocator_->getDeviceStats(0); }
  static c10::CachingAllocator::Stat all(const c10::CachingAllocator::StatArray& stats) {
    return stats[0];
  }
  static c10::CachingAllocator::Stat small(const c10::CachingAllocator::StatArray& stats) {
    return stats[1];
  }
  static c10::CachingAllocator::Stat large(const c10::CachingAllocator::StatArray& stats) {
    return stats[2];
  }

  HostSource* source_ = nullptr;  // the allocator's
  std::vector<std::string> said_;
  std::unique_ptr<CudaAllocator> allocator_;
};

}  // namespace ebbtide::plugin::cuda::test
