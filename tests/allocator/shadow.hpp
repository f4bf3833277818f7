// Shadow: what a resource gave out, kept by someone who shares no code with it. Every operation
// goes through it and is checked:
//
//   live blocks are disjoint, lie in mapped pages, and take what was foretold
//   sampled ones keep their bytes
//   live bytes are the budget tracker's; mapped ones are, as others see them, and within the budget
//   what work of a stream may still use is in no block of another stream, and not unmapped
//
// Needs no test framework, so that a benchmark can use it. Not thread-safe.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ebbtide/allocator/budget_tracker.hpp"
#include "ebbtide/allocator/memory_resource.hpp"

namespace ebbtide::allocator::test {

// What others than the allocator know; what is empty is not checked.
struct Witness {
  std::function<Bytes()> mapped_bytes;
  std::function<bool(const void*, Bytes)> covers;     // is all of it mapped?
  std::function<Bytes(std::size_t)> block_bytes_for;  // of a request
  std::function<std::uint64_t()> synchronizes;        // of the whole device, so far
  std::function<std::uint64_t(Stream)> finishes;      // how often the stream did all it had
};

class Shadow {
 public:
  struct Block {
    char* begin;
    std::size_t bytes;
    Bytes block_bytes;
    Stream stream;
    std::uint64_t mark;  // 0: not a sample
    std::vector<Stream> shared_with;
  };

  // Of `sample_every` blocks one carries marks.
  Shadow(MemoryResource& resource, BudgetTracker& tracker, Witness witness,
         std::uint64_t sample_every)
      : resource_(resource),
        tracker_(tracker),
        witness_(std::move(witness)),
        sample_every_(sample_every) {}

  // The block's index among the live ones; -1 when it was refused.
  std::int64_t allocate(std::size_t bytes, Stream stream) {
    ++operations_;
    auto* begin = static_cast<char*>(resource_.allocate(bytes, stream));
    if (begin == nullptr) {
      ++refusals_;
      checkBooks();
      return -1;
    }
    Block block{begin, bytes, resource_.blockBytes(begin), stream, 0, {}};
    char* const end = begin + block.block_bytes;
    if (block.block_bytes < static_cast<Bytes>(bytes)) fail("too small");
    if (witness_.block_bytes_for && block.block_bytes != witness_.block_bytes_for(bytes)) {
      fail("another size than foretold");
    }
    if (overlapping(intervals_, begin, end) != intervals_.end()) fail("overlaps a live block");
    if (witness_.covers && !witness_.covers(begin, block.block_bytes)) fail("not mapped");
    checkWork(begin, end, stream);
    intervals_.emplace(begin, end);
    live_bytes_ += block.block_bytes;
    if (operations_ % sample_every_ == 0 && bytes >= 2 * sizeof block.mark) writeMarks(block);
    live_.push_back(std::move(block));
    checkBooks();
    return static_cast<std::int64_t>(live_.size()) - 1;
  }

  // The last block takes its index.
  void free(std::size_t index) {
    ++operations_;
    std::swap(live_[index], live_.back());
    Block block = std::move(live_.back());
    live_.pop_back();
    checkMarks(block);
    intervals_.erase(block.begin);
    live_bytes_ -= block.block_bytes;
    noteWork(block);
    resource_.deallocate(block.begin);
    checkBooks();
  }

  void share(std::size_t index, Stream stream) {
    resource_.recordStream(live_[index].begin, stream);
    live_[index].shared_with.push_back(stream);
  }

  // Before pages go: nothing lives there, and no work can still use what did.
  void expectUnused(const void* begin, Bytes bytes) {
    auto* at = static_cast<char*>(const_cast<void*>(begin));
    if (overlapping(intervals_, at, at + bytes) != intervals_.end()) fail("unmapped alive");
    forgetDoneWork();
    for (auto work = overlapping(work_, at, at + bytes);
         work != work_.end() && work->first < at + bytes; ++work) {
      fail("unmapped while work may use it");
    }
  }

  const std::vector<Block>& live() const { return live_; }
  Bytes liveBytes() const { return live_bytes_; }
  std::uint64_t operations() const { return operations_; }
  std::uint64_t refusals() const { return refusals_; }
  std::uint64_t failures() const { return failures_; }
  const std::string& firstFailure() const { return first_failure_; }

 private:
  // Freed, but work that was queued by then may use it until the device was waited for.
  struct Work {
    char* end;
    Stream stream;
    std::uint64_t synchronizes;
    std::vector<std::pair<Stream, std::uint64_t>> finishes;  // of the streams it was shared with
  };

  static char* endOf(char* end) { return end; }
  static char* endOf(const Work& work) { return work.end; }

  // The first interval that reaches beyond `begin`, if it begins before `end`.
  template <typename Value>
  static typename std::map<char*, Value>::iterator overlapping(std::map<char*, Value>& map,
                                                               char* begin, char* end) {
    auto after = map.upper_bound(begin);
    if (after != map.begin() && endOf(std::prev(after)->second) > begin) return std::prev(after);
    return after != map.end() && after->first < end ? after : map.end();
  }

  void fail(const char* what) {
    if (failures_++ == 0) {
      first_failure_ = std::string(what) + " at operation " + std::to_string(operations_);
    }
  }

  void checkBooks() {
    if (tracker_.liveBytes() != live_bytes_) fail("the budget tracker's live bytes are wrong");
    if (!witness_.mapped_bytes) return;
    const Bytes mapped = witness_.mapped_bytes();
    if (mapped != tracker_.mappedBytes()) fail("the budget tracker's mapped bytes are wrong");
    if (mapped < live_bytes_) fail("less is mapped than lives");
    if (mapped > tracker_.mappedPeakBytes()) fail("the mapped peak is too low");
  }

  void noteWork(const Block& block) {
    if (!witness_.synchronizes) return;
    Work work{block.begin + block.block_bytes, block.stream, witness_.synchronizes(), {}};
    for (const Stream stream : block.shared_with) {
      if (stream != block.stream) work.finishes.emplace_back(stream, witness_.finishes(stream));
    }
    work_.insert_or_assign(block.begin, std::move(work));
  }

  // A wait for the device ends all work from before.
  void forgetDoneWork() {
    if (!witness_.synchronizes || witness_.synchronizes() == last_synchronizes_) return;
    last_synchronizes_ = witness_.synchronizes();
    std::erase_if(
        work_, [&](const auto& entry) { return entry.second.synchronizes < last_synchronizes_; });
  }

  void checkWork(char* begin, char* end, Stream stream) {
    if (!witness_.synchronizes) return;
    forgetDoneWork();
    for (auto at = overlapping(work_, begin, end); at != work_.end() && at->first < end;
         at = work_.erase(at)) {
      if (at->second.stream != stream) fail("another stream may still use it");
      for (const auto& [shared, finishes] : at->second.finishes) {
        if (witness_.finishes(shared) == finishes) fail("it is shared, and awaited");
      }
    }
  }

  template <typename Visit>
  static void forEachMark(const Block& block, Visit&& visit) {
    constexpr std::size_t kStep = 4096;
    for (std::size_t at = 0; at + 2 * sizeof block.mark <= block.bytes; at += kStep) {
      visit(block.begin + at);
    }
    visit(block.begin + block.bytes - sizeof block.mark);
  }
  void writeMarks(Block& block) {
    block.mark = operations_ * 0x9e3779b97f4a7c15U | 1U;
    forEachMark(block, [&](char* at) { std::memcpy(at, &block.mark, sizeof block.mark); });
  }
  void checkMarks(const Block& block) {
    if (block.mark == 0) return;
    forEachMark(block, [&](const char* at) {
      if (std::memcmp(at, &block.mark, sizeof block.mark) != 0) fail("its bytes changed");
    });
  }

  MemoryResource& resource_;
  BudgetTracker& tracker_;
  const Witness witness_;
  const std::uint64_t sample_every_;
  std::vector<Block> live_;
  std::map<char*, char*> intervals_;  // live: begin -> end
  std::map<char*, Work> work_;
  std::uint64_t last_synchronizes_ = 0;
  Bytes live_bytes_ = 0;
  std::uint64_t operations_ = 0, refusals_ = 0, failures_ = 0;
  std::string first_failure_;
};

}  // namespace ebbtide::allocator::test
