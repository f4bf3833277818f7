// PlacedResource: blocks of a step at the addresses that were placed for them; requests that were
// not foreseen go upstream.
//
//   arena   ├ holes, mapped as blocks come ┤ addresses without memory
//   cursor  ─► block ─► block ─► block ...   back to its phase's begin when announced
//
// Each stream has an arena and a cursor of its own, once a step of it was foreseen; up to eight do.
// A request of the expected size takes its address if nothing lies there: that is looked up at each
// allocation, whatever the plan says. So a block that is freed late keeps its bytes, and who was to
// come there goes upstream. A request of another size is searched for a little way ahead, else goes
// upstream, too. Pages that a place lacks are taken from wherever no block lies: the pools, other
// arenas, this one. If there are none, that block alone goes upstream.
//
// Where the budget is short, blocks of a step that was not foreseen, a program without a plan say,
// lie on free pages of the arena. To unmap those, map others, and back again for the next step
// would take a tenth of a small step.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "ebbtide/allocator/address_space.hpp"
#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/mapped_extent.hpp"
#include "ebbtide/allocator/memory_resource.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"
#include "ebbtide/allocator/pool_resource.hpp"

namespace ebbtide::allocator {

// A request that was not the one that the sequence has next.
struct PlanDeviation {
  std::int64_t block = 0;     // which of the sequence was expected, counted from 0
  Bytes expected_bytes = 0;   // 0: its blocks had all come
  Bytes requested_bytes = 0;  // rounded up to kUnitBytes
};

// Of large blocks in steps that were foreseen; ever. What is foreseen upstream is in the first
// alone.
struct PlacedBytes {
  Bytes requested = 0;
  Bytes placed = 0;          // at their places
  Bytes misplaced = 0;       // not foreseen, or something lay at their place
  Bytes short_of_pages = 0;  // nothing lay there, but there were no pages for it
};

class PlacedResource final : public MemoryResource, public PageHolder {
 public:
  // Upstream's pages are trimmed for the arenas, and the arenas' free pages for it. reserve_bytes
  // are addresses for each arena.
  PlacedResource(AddressSpace& space, StreamEvents& events, BudgetTracker& tracker,
                 PoolResource& upstream, Bytes reserve_bytes);
  ~PlacedResource() override;

  // A step begins: allocations on this stream follow the sequence from its begin.
  // nullptr: none is foreseen. Only this thread's, if `this_thread_only`: on the host, where others
  // use the same stream.
  void beginStep(Stream stream, std::shared_ptr<const PlacedSequence> sequence,
                 bool this_thread_only) noexcept;
  // The cursor goes where this phase begins, wherever it was.
  void beginPhase(Stream stream, std::size_t phase) noexcept;

  void* allocate(std::size_t bytes, Stream stream) noexcept override;
  void deallocate(void* block) noexcept override;
  Bytes blockBytes(const void* block) const noexcept override;
  void recordStream(void* block, Stream stream) noexcept override;

  // Unmaps what no block lies on.
  Bytes unmapFree(Bytes need_bytes) noexcept override;
  Bytes freeBytes() const noexcept override;

  bool owns(const void* pointer) const noexcept;
  void describe(MappedExtents& out) const;  // adds all that is mapped
  // Ever: large blocks of foreseen steps that lay at their places.
  std::int64_t placedBlocks() const noexcept;
  std::int64_t lentBlocks() const noexcept;  // ever: that lay in an arena without being foreseen
  PlacedBytes placedBytes() const noexcept;
  // Ever: requests that were not the expected ones; blocks whose place was taken, or lacked pages.
  std::int64_t deviations() const noexcept;
  std::int64_t latePlaces() const noexcept;
  // Of the stream's present step.
  std::optional<PlanDeviation> firstDeviation(Stream stream) const noexcept;

  void lockForFork() noexcept;
  void unlockAfterFork() noexcept;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide::allocator
