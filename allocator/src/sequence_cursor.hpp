// SequenceCursor: how far a step is in its sequence, and which block it expects next. Not
// thread-safe.
//
//   blocks   ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■
//                ▲ ├─ looked at ─┤   for one of the size that is asked for; those before it were
//              cursor                left out
//
// So a step that leaves out some, or asks for others between, still gets its places.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ebbtide/allocator/placed_resource.hpp"
#include "ebbtide/allocator/placed_sequence.hpp"
#include "this_thread.hpp"

namespace ebbtide::allocator {

class SequenceCursor {
 public:
  struct Move {
    std::size_t from = 0, to = 0;  // indices of blocks
  };
  struct Expected {
    const PlacedBlock* block = nullptr;  // nullptr: none of this size is near
    Move move;
    bool deviated = false;  // another one was next
  };

  // Begins a step that any thread follows, or this one only. nullptr: no step is foreseen. Swaps
  // the previous sequence into `sequence`: the caller drops it after its lock.
  void begin(std::shared_ptr<const PlacedSequence>& sequence, bool this_thread_only) noexcept;
  // The cursor goes where this phase begins. Not by a thread that does not follow the step.
  void beginPhase(std::size_t phase) noexcept;

  bool isForeseen() const noexcept { return sequence_ != nullptr; }
  bool isFollowedHere() const noexcept {
    return sequence_ != nullptr && (only_thread_ == nullptr || only_thread_ == thisThread());
  }

  // The expected block of this size, which the cursor then passes. Only where isFollowedHere().
  Expected expect(std::uint32_t units) noexcept;
  // The block was not made: asked for again, it is the expected one still.
  void takeBack(const Move& move) noexcept;

  // The first request since begin() that was not for the next block.
  const std::optional<PlanDeviation>& firstDeviation() const noexcept { return first_deviation_; }

  // visit(block) for up to `count` next blocks, each once. After the last one the first follows.
  template <typename Visit>
  void forEachNext(std::size_t count, Visit&& visit) const;

 private:
  static constexpr std::size_t kLookAhead = 16;  // blocks: how many a step may leave out in a row

  void noteDeviation(std::uint32_t units) noexcept;

  std::shared_ptr<const PlacedSequence> sequence_;
  const void* only_thread_ = nullptr;
  std::size_t cursor_ = 0;
  std::optional<PlanDeviation> first_deviation_;
};

// At each large allocation.
inline SequenceCursor::Expected SequenceCursor::expect(std::uint32_t units) noexcept {
  const std::vector<PlacedBlock>& blocks = sequence_->blocks;
  const std::size_t from = cursor_;
  const std::size_t end = std::min(blocks.size(), from + kLookAhead);
  for (std::size_t i = from; i < end; ++i) {
    if (blocks[i].units != units) continue;
    if (i != from) noteDeviation(units);
    cursor_ = i + 1;
    return {.block = &blocks[i], .move = {from, i + 1}, .deviated = i != from};
  }
  noteDeviation(units);
  return {.block = nullptr, .move = {from, from}, .deviated = true};
}

template <typename Visit>
void SequenceCursor::forEachNext(std::size_t count, Visit&& visit) const {
  if (sequence_ == nullptr) return;
  const std::vector<PlacedBlock>& blocks = sequence_->blocks;
  for (std::size_t i = 0; i < std::min(count, blocks.size()); ++i) {
    visit(blocks[(cursor_ + i) % blocks.size()]);
  }
}

}  // namespace ebbtide::allocator
