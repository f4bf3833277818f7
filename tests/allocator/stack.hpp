// Every resource alone and on top of what it needs, over fakes or the host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ebbtide/allocator/device_memory.hpp"
#include "fakes.hpp"

namespace ebbtide::allocator::test {

struct Shape {
  enum class Kind { kPool, kPlanned, kFollowing, kRecording, kObserved, kReclaiming, kDevice };

  Kind kind = Kind::kDevice;
  Bytes page_bytes = kPage;  // 0: the host's own, not spied on
  Bytes alignment_bytes = 64;
  Bytes reserve_bytes = 256 * kMiB;
  std::chrono::nanoseconds longest_wait = std::chrono::seconds{20};
};

inline std::string nameOf(const Shape& shape) {
  static constexpr const char* kNames[] = {"Pool",     "Planned",    "Following", "Recording",
                                           "Observed", "Reclaiming", "Device"};
  return std::string(kNames[static_cast<int>(shape.kind)]) +
         (shape.page_bytes == 0       ? "Host"
          : shape.page_bytes == kPage ? "Pages4K"
                                      : "Pages2M") +
         "Grain" + std::to_string(shape.alignment_bytes);
}

// Blocks in these sizes, one after the other, each at a place of its own.
inline std::shared_ptr<const PlacedSequence> sequenceOf(const std::vector<Bytes>& sizes) {
  auto sequence = std::make_shared<PlacedSequence>();
  for (const Bytes bytes : sizes) {
    const auto units = static_cast<std::uint32_t>((bytes + kUnitBytes - 1) / kUnitBytes);
    sequence->blocks.push_back({.units = units, .offset_units = sequence->height_units});
    sequence->height_units += units;
  }
  return sequence;
}

// Blocks of 1 MiB that take turns at four places: some come when their place is free, some not.
inline std::shared_ptr<const PlacedSequence> roundRobin() {
  auto sequence = std::make_shared<PlacedSequence>();
  for (std::uint32_t i = 0; i < 1000; ++i) {
    sequence->blocks.push_back({.units = 256, .offset_units = i % 4 * 256});
  }
  sequence->height_units = 4 * 256;
  return sequence;
}

// The events may be looked at for as long as the stack lives.
class Stack {
 public:
  explicit Stack(const Shape& shape = {}) : shape_(shape) {
    auto events = std::make_unique<FakeEvents>();
    events_ = events.get();
    std::unique_ptr<AddressSpace> space;
    if (shape.page_bytes == 0) {
      space = makeHostAddressSpace();
    } else {
      auto spy = std::make_unique<SpySpace>(shape.page_bytes);
      spy_ = spy.get();
      space = std::move(spy);
    }
    space_ = space.get();
    memory_ = std::make_unique<DeviceMemory>(
        std::move(space), std::move(events),
        DeviceMemory::Options{.alignment_bytes = shape.alignment_bytes,
                              .reserve_bytes = shape.reserve_bytes,
                              .longest_wait = shape.longest_wait});
    if (shape.kind == Shape::Kind::kObserved) {
      alone_ = std::make_unique<ObservedResource>(memory_->placed());
    } else if (shape.kind == Shape::Kind::kRecording) {
      memory_->recording().start(kPage);
    } else if (shape.kind == Shape::Kind::kReclaiming) {
      alone_ = std::make_unique<ReclaimingResource>(memory_->pool(), memory_->budgetTracker(),
                                                    memory_->pool());
    } else if (shape.kind == Shape::Kind::kFollowing) {
      memory_->placed().beginStep(Stream::kDefault, roundRobin(), /*this_thread_only=*/false);
    }
  }

  MemoryResource& top() noexcept {
    if (alone_ != nullptr) return *alone_;
    if (shape_.kind == Shape::Kind::kPool) return memory_->pool();
    if (shape_.kind == Shape::Kind::kRecording) return memory_->recording();
    if (shape_.kind == Shape::Kind::kDevice) return *memory_;
    return memory_->placed();
  }
  MemoryResource* operator->() noexcept { return &top(); }

  DeviceMemory& memory() noexcept { return *memory_; }
  PlacedResource& placed() noexcept { return memory_->placed(); }
  BudgetTracker& budgetTracker() noexcept { return memory_->budgetTracker(); }
  SpySpace& spy() noexcept { return *spy_; }
  bool isSpied() const noexcept { return spy_ != nullptr; }
  AddressSpace& space() noexcept { return *space_; }
  FakeEvents& events() noexcept { return *events_; }

  // The spy knows of it, and nothing over it is let in.
  void limit(Bytes budget_bytes) {
    memory_->limitOverrun(0);
    memory_->setBudget(budget_bytes);
    if (spy_ != nullptr) spy_->ceiling_bytes = budget_bytes;
  }

  // Nothing is in a call: what the budget tracker says is mapped, and nobody misbehaved.
  void expectSound() {
    EXPECT_EQ(events_->badCalls(), 0);
    if (spy_ == nullptr) return;
    EXPECT_EQ(spy_->badCalls(), 0);
    EXPECT_EQ(spy_->over_ceiling, 0);
    EXPECT_EQ(spy_->mappedBytes(), budgetTracker().mappedBytes());
  }

 private:
  const Shape shape_;
  FakeEvents* events_ = nullptr;
  SpySpace* spy_ = nullptr;
  AddressSpace* space_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;
  std::unique_ptr<MemoryResource> alone_;
};

}  // namespace ebbtide::allocator::test
