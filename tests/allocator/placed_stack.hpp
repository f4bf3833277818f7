// A stack whose steps are foreseen, and the sequences of placed blocks that they follow.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "stack.hpp"

namespace ebbtide::allocator::test {

inline constexpr Stream kStream = Stream::kDefault;
inline constexpr Stream kOther{9};

inline std::shared_ptr<const PlacedSequence> placed(std::vector<PlacedBlock> blocks,
                                                    std::vector<std::uint32_t> phase_begins = {0}) {
  auto sequence = std::make_shared<PlacedSequence>();
  for (const PlacedBlock& block : blocks) {
    if (block.offset_units != PlacedBlock::kNotPlaced) {
      sequence->height_units = std::max(sequence->height_units, block.offset_units + block.units);
    }
  }
  sequence->blocks = std::move(blocks);
  sequence->phase_begins = std::move(phase_begins);
  return sequence;
}

class PlacedResourceTest : public testing::Test {
 protected:
  ~PlacedResourceTest() override { stack_.expectSound(); }

  void begin(const std::shared_ptr<const PlacedSequence>& sequence, Stream stream = kStream) {
    stack_.placed().beginStep(stream, sequence, /*this_thread_only=*/false);
  }
  char* allocate(Bytes units, Stream stream = kStream) {
    return static_cast<char*>(stack_->allocate(size(units * kUnitBytes), stream));
  }
  bool isPlaced(const void* block) { return stack_.placed().owns(block); }
  Bytes deviations() { return stack_.placed().deviations(); }
  Bytes late() { return stack_.placed().latePlaces(); }
  void freeAll(const std::vector<void*>& blocks) {
    for (void* block : blocks) stack_->deallocate(block);
  }

  Stack stack_;
};

}  // namespace ebbtide::allocator::test
