#include "ebbtide/allocator/step_lifetimes.hpp"

#include <algorithm>

namespace ebbtide::allocator {

StepLifetimes stepLifetimes(const RequestLog& log, std::size_t phases) {
  StepLifetimes step;
  if (log.marks.size() != 2 * phases + 1) return step;
  const std::int64_t begin = log.marks.front();
  const std::int64_t next = log.marks[phases];
  const std::int64_t end = log.marks.back();
  step.period = next - begin;
  for (std::int64_t i = begin; i < next; ++i) {
    const RequestLog::Block& block = log.blocks[static_cast<std::size_t>(i)];
    step.units.push_back(static_cast<std::uint32_t>(block.bytes / kUnitBytes));
    // Alive when its turn comes again, it needs a place beside its own.
    if (block.death >= end || block.death - i > step.period) continue;
    step.placed.push_back(static_cast<std::uint32_t>(step.units.size() - 1));
    step.lifetimes.push_back({i - begin, block.death - begin, block.bytes});
  }
  for (std::size_t i = 0; i < phases; ++i) {
    step.phase_begins.push_back(static_cast<std::uint32_t>(log.marks[i] - begin));
  }
  return step;
}

PlacedSequence placedSequence(const StepLifetimes& step, std::span<const Bytes> offsets) {
  PlacedSequence sequence;
  sequence.phase_begins = step.phase_begins;
  sequence.blocks.reserve(step.units.size());
  for (const std::uint32_t units : step.units) {
    sequence.blocks.push_back({units, PlacedBlock::kNotPlaced});
  }
  for (std::size_t i = 0; i < step.placed.size(); ++i) {
    PlacedBlock& block = sequence.blocks[step.placed[i]];
    block.offset_units = static_cast<std::uint32_t>(offsets[i] / kUnitBytes);
    sequence.height_units = std::max(sequence.height_units, block.offset_units + block.units);
  }
  return sequence;
}

}  // namespace ebbtide::allocator
