#include "allocation_trace.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <queue>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace ebbtide::benchmarks {
namespace {

constexpr Bytes kMostLiveBytes = Bytes{1} << 56;

class Reader {
 public:
  AllocationTrace read(std::string_view text) {
    while (!text.empty()) {
      ++line_;
      const std::size_t end = text.find('\n');
      if (end == std::string_view::npos) fail("the last line has no end");
      readLine(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
    if (!any_) fail("no step allocates anything");
    return std::move(trace_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw std::invalid_argument("line " + std::to_string(line_) + ": " + why);
  }

  void readLine(std::string_view line) {
    if (line == "step") {
      trace_.steps.emplace_back();
    } else if (line.starts_with("alloc ")) {
      line.remove_prefix(6);
      const std::size_t space = line.find(' ');
      if (space == std::string_view::npos) fail("no size");
      alloc(number(line.substr(0, space)), number(line.substr(space + 1)));
    } else if (line.starts_with("free ")) {
      free(number(line.substr(5)));
    } else {
      fail("neither alloc, free nor step");
    }
  }

  std::int64_t number(std::string_view word) const {
    std::int64_t value = 0;
    const char* const end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data(), end, value);
    const bool is_plain = word == "0" || (!word.empty() && word[0] >= '1' && word[0] <= '9');
    if (error != std::errc() || rest != end || !is_plain) fail("not a number");
    return value;
  }

  void alloc(std::int64_t id, std::int64_t bytes) {
    const auto block = static_cast<std::uint32_t>(trace_.blocks.size());
    if (!block_of_.emplace(id, block).second) fail("this block was there before");
    if (bytes == 0) fail("a block without bytes");
    if (bytes > kMostLiveBytes - live_bytes_) fail("too many bytes");
    live_bytes_ += bytes;
    trace_.blocks.push_back(bytes);
    is_live_.push_back(true);
    if (!trace_.steps.empty()) any_ = true;
    events().push_back({block, /*is_free=*/false});
  }

  void free(std::int64_t id) {
    const auto found = block_of_.find(id);
    if (found == block_of_.end() || !is_live_[found->second]) fail("no such block is live");
    is_live_[found->second] = false;
    live_bytes_ -= trace_.blocks[found->second];
    events().push_back({found->second, /*is_free=*/true});
  }

  std::vector<AllocationTrace::Event>& events() {
    return trace_.steps.empty() ? trace_.before : trace_.steps.back();
  }

  AllocationTrace trace_;
  std::unordered_map<std::int64_t, std::uint32_t> block_of_;  // by its number
  std::vector<bool> is_live_;
  Bytes live_bytes_ = 0;
  bool any_ = false;
  std::int64_t line_ = 0;
};

class LoopMaker {
 public:
  LoopMaker(const AllocationTrace& trace, Bytes least_bytes)
      : trace_(trace), least_bytes_(least_bytes), slot_of_(trace.blocks.size(), kNone) {}

  ReplayLoop make() {
    turn(trace_.before, loop_.before);
    const std::vector<std::uint32_t> at_begin = slot_of_;
    for (const std::vector<AllocationTrace::Event>& step : trace_.steps) {
      turn(step, loop_.steps.emplace_back());
    }
    close(at_begin);
    countAllocations();
    return std::move(loop_);
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  void turn(const std::vector<AllocationTrace::Event>& events,
            std::vector<ReplayLoop::Event>& into) {
    for (const AllocationTrace::Event& event : events) {
      const Bytes bytes = trace_.blocks[event.block];
      if (bytes < least_bytes_) continue;
      if (event.is_free) {
        free(std::exchange(slot_of_[event.block], kNone), bytes, into);
      } else {
        slot_of_[event.block] = alloc(bytes, into);
      }
    }
  }

  std::uint32_t alloc(Bytes bytes, std::vector<ReplayLoop::Event>& into) {
    std::uint32_t slot = loop_.slots;
    if (unused_.empty()) {
      ++loop_.slots;
    } else {
      slot = unused_.back();
      unused_.pop_back();
    }
    live_bytes_ += bytes;
    loop_.live_peak_bytes = std::max(loop_.live_peak_bytes, live_bytes_);
    into.push_back({slot, bytes});
    return slot;
  }

  void free(std::uint32_t slot, Bytes bytes, std::vector<ReplayLoop::Event>& into) {
    unused_.push_back(slot);
    live_bytes_ -= bytes;
    into.push_back({slot, 0});
  }

  // Slots at the end become those of the begin.
  void close(const std::vector<std::uint32_t>& at_begin) {
    std::vector<ReplayLoop::Event>& last = loop_.steps.back();
    std::map<Bytes, std::queue<std::uint32_t>> newcomers;  // slots by size, the oldest first
    for (std::size_t block = 0; block < slot_of_.size(); ++block) {
      if (slot_of_[block] != kNone && at_begin[block] == kNone) {
        newcomers[trace_.blocks[block]].push(slot_of_[block]);
      }
    }
    std::vector<std::pair<std::uint32_t, Bytes>> missing;
    for (std::size_t block = 0; block < slot_of_.size(); ++block) {
      if (at_begin[block] == kNone || slot_of_[block] != kNone) continue;
      std::queue<std::uint32_t>& of_size = newcomers[trace_.blocks[block]];
      if (of_size.empty()) {
        missing.emplace_back(at_begin[block], trace_.blocks[block]);
      } else {
        loop_.carries.push_back({of_size.front(), at_begin[block]});
        of_size.pop();
      }
    }
    for (auto& [bytes, slots] : newcomers) {
      for (; !slots.empty(); slots.pop()) free(slots.front(), bytes, last);
    }
    for (const auto& [slot, bytes] : missing) {
      loop_.carries.push_back({alloc(bytes, last), slot});
    }
  }

  void countAllocations() {
    for (const std::vector<ReplayLoop::Event>& step : loop_.steps) {
      loop_.allocations += std::count_if(step.begin(), step.end(),
                                         [](const auto& event) { return event.bytes > 0; });
    }
  }

  const AllocationTrace& trace_;
  const Bytes least_bytes_;
  std::vector<std::uint32_t> slot_of_;  // by block
  std::vector<std::uint32_t> unused_;
  Bytes live_bytes_ = 0;
  ReplayLoop loop_;
};

}  // namespace

AllocationTrace parseAllocationTrace(std::string_view text) {
  return Reader().read(text);
}

ReplayLoop makeReplayLoop(const AllocationTrace& trace, Bytes least_bytes) {
  return LoopMaker(trace, least_bytes).make();
}

}  // namespace ebbtide::benchmarks
