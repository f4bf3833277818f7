// RandomTrace: random requests, and training steps that are nearly alike, for a Shadow. Needs no
// test framework. The same seed makes the same trace.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "ebbtide/allocator/placed_resource.hpp"
#include "shadow.hpp"

namespace ebbtide::allocator::test {

class RandomTrace {
 public:
  struct Options {
    std::size_t streams = 1;
    Bytes most_live_bytes = Bytes{48} << 20;
    std::size_t most_live_blocks = 1500;
    std::size_t largest_bytes = std::size_t{4} << 20;
    std::uint32_t share_percent = 0;    // of the blocks, with one other stream
    std::uint32_t deviate_percent = 0;  // of a step's blocks, each way
    std::size_t step_blocks = 200;
  };

  RandomTrace(Shadow& shadow, const Options& options, std::uint64_t seed)
      : shadow_(shadow), options_(options), random_(seed) {}

  std::mt19937_64& random() { return random_; }

  // One allocation or free.
  void step() {
    const bool full = shadow_.liveBytes() > options_.most_live_bytes ||
                      shadow_.live().size() > options_.most_live_blocks;
    if (!full && random_() % 100 < 55) {
      allocate(anySize());
    } else {
      freeAny();
    }
  }

  void freeAny() {
    if (!shadow_.live().empty()) shadow_.free(random_() % shadow_.live().size());
  }
  void freeAll() {
    while (!shadow_.live().empty()) shadow_.free(shadow_.live().size() - 1);
  }

  // A new sequence of allocations and frees; `kept` of them outlive the step.
  void planStep() {
    events_.clear();
    std::vector<std::size_t> live;
    for (std::size_t block = 0; block < options_.step_blocks; ++block) {
      sizes_.resize(block + 1);
      sizes_[block] = 33 * 1024 + random_() % (options_.largest_bytes / 4);
      events_.push_back({block, true});
      live.push_back(block);
      while (!live.empty() && random_() % 100 < 45) {
        // The youngest most often, as in a model.
        const std::size_t back = random_() % 3 == 0 ? random_() % live.size() : 0;
        std::swap(live[live.size() - 1 - back], live.back());
        events_.push_back({live.back(), false});
        live.pop_back();
      }
    }
    for (const std::size_t block : live) events_.push_back({block, false});
    place();
  }

  // Runs the step, with deviations.
  void runStep(PlacedResource& planned, Stream stream) {
    planned.beginStep(stream, random_() % 16 == 0 ? nullptr : sequence_, random_() % 2 == 0);
    std::vector<char*> begins(sizes_.size());
    std::vector<char*> late;
    const auto deviates = [&] { return random_() % 100 < options_.deviate_percent; };
    for (const auto& [block, allocates] : events_) {
      if (block == phase_block_ && allocates) planned.beginPhase(stream, 1);
      if (!allocates) {
        if (deviates()) {
          late.push_back(begins[block]);  // freed at the end of the step
        } else {
          freeAt(begins[block]);
        }
        continue;
      }
      if (deviates()) continue;                     // left out
      if (deviates()) allocate(anySize(), stream);  // an additional one, of any life
      std::size_t bytes = sizes_[block];
      if (deviates()) bytes += random_() % 3 == 0 ? 1 : 5000;  // drift
      const std::int64_t index = shadow_.allocate(bytes, stream);
      if (index < 0) continue;
      begins[block] = shadow_.live()[static_cast<std::size_t>(index)].begin;
      if (deviates()) freeAt(std::exchange(begins[block], nullptr));  // early
    }
    for (char* begin : late) freeAt(begin);
    while (shadow_.live().size() > options_.step_blocks) freeAny();
  }

 private:
  struct Event {
    std::size_t block;
    bool allocates;
  };

  std::size_t anySize() {
    static constexpr std::array<std::size_t, 4> kRepeated{64 << 10, 200'000, 1 << 20, 3 << 20};
    switch (random_() % 8) {
      case 0:
        return std::min(options_.largest_bytes, kRepeated[random_() % kRepeated.size()]);
      case 1:
        return 1 + random_() % options_.largest_bytes;
      case 2:
        return 1 + random_() % (options_.largest_bytes / 16);
      default:
        return 1 + random_() % (std::size_t{32} << random_() % 11);
    }
  }

  void allocate(std::size_t bytes) { allocate(bytes, Stream{random_() % options_.streams}); }
  void allocate(std::size_t bytes, Stream stream) {
    const std::int64_t index = shadow_.allocate(bytes, stream);
    if (index >= 0 && options_.streams > 1 && random_() % 100 < options_.share_percent) {
      shadow_.share(static_cast<std::size_t>(index), Stream{random_() % options_.streams});
    }
  }

  void freeAt(char* begin) {
    if (begin == nullptr) return;
    // From the back: a step's blocks are young.
    const std::vector<Shadow::Block>& live = shadow_.live();
    for (std::size_t i = live.size(); i-- > 0;) {
      if (live[i].begin == begin) return shadow_.free(i);
    }
  }

  // First fit in the order of events; the simplest placement that is right.
  void place() {
    auto sequence = std::make_shared<PlacedSequence>();
    std::vector<std::pair<std::uint32_t, std::uint32_t>> taken;  // sorted: begin, end
    for (const auto& [block, allocates] : events_) {
      if (!allocates) {
        const std::uint32_t offset = sequence->blocks[block].offset_units;
        std::erase_if(taken, [offset](const auto& range) { return range.first == offset; });
        continue;
      }
      const auto units = static_cast<std::uint32_t>((sizes_[block] - 1) / 4096 + 1);
      std::uint32_t at = 0;
      std::size_t before = 0;
      while (before < taken.size() && taken[before].first < at + units) at = taken[before++].second;
      taken.insert(taken.begin() + static_cast<std::ptrdiff_t>(before), {at, at + units});
      sequence->height_units = std::max(sequence->height_units, at + units);
      const bool placed = random_() % 20 != 0;
      sequence->blocks.push_back({units, placed ? at : PlacedBlock::kNotPlaced});
      if (!placed) taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(before));
    }
    phase_block_ = sizes_.size() / 2;
    sequence->phase_begins = {0, static_cast<std::uint32_t>(phase_block_)};
    sequence_ = std::move(sequence);
  }

  Shadow& shadow_;
  const Options options_;
  std::mt19937_64 random_;
  std::vector<std::size_t> sizes_;
  std::vector<Event> events_;
  std::shared_ptr<const PlacedSequence> sequence_;
  std::size_t phase_block_ = 0;
};

}  // namespace ebbtide::allocator::test
