#include "sequence_cursor.hpp"

#include <utility>

namespace ebbtide::allocator {

void SequenceCursor::begin(std::shared_ptr<const PlacedSequence>& sequence,
                           bool this_thread_only) noexcept {
  only_thread_ = this_thread_only ? thisThread() : nullptr;
  cursor_ = 0;
  first_deviation_.reset();
  sequence_.swap(sequence);
}

void SequenceCursor::beginPhase(std::size_t phase) noexcept {
  if (!isFollowedHere()) return;
  const std::vector<std::uint32_t>& begins = sequence_->phase_begins;
  if (phase < begins.size()) cursor_ = begins[phase];
}

void SequenceCursor::takeBack(const Move& move) noexcept {
  if (cursor_ == move.to) cursor_ = move.from;
}

void SequenceCursor::noteDeviation(std::uint32_t units) noexcept {
  if (first_deviation_) return;
  const std::vector<PlacedBlock>& blocks = sequence_->blocks;
  const Bytes expected_bytes = cursor_ < blocks.size() ? blocks[cursor_].units * kUnitBytes : 0;
  first_deviation_ = {static_cast<std::int64_t>(cursor_), expected_bytes, units * kUnitBytes};
}

}  // namespace ebbtide::allocator
