#include "observe/snapshot_file.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/system_time.hpp"
#include "ebbtide/allocator/bytes.hpp"
#include "observe/pickle.hpp"

namespace ebbtide::plugin {
namespace {

using allocator::Bytes;
using allocator::MappedStretch;

constexpr Bytes kLeastLarge = 32 << 10;  // blocks of pages of their own

std::int64_t addressOf(const void* pointer) noexcept {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer));
}

struct Segment {
  std::vector<MappedStretch> stretches;
  bool mapped = true;

  const std::byte* end() const noexcept { return stretches.back().begin + stretches.back().bytes; }
  template <typename Of>
  Bytes sum(Of&& of) const {
    Bytes bytes = 0;
    for (const MappedStretch& stretch : stretches) bytes += of(stretch) ? stretch.bytes : 0;
    return bytes;
  }
};

// Those that touch, of one stream.
std::vector<Segment> joined(const allocator::MappedStretches& stretches, bool mapped) {
  std::vector<Segment> segments;
  for (const MappedStretch& stretch : stretches) {
    const bool touches = !segments.empty() && segments.back().end() == stretch.begin &&
                         segments.back().stretches.back().stream == stretch.stream;
    if (!touches) segments.emplace_back().mapped = mapped;
    segments.back().stretches.push_back(stretch);
  }
  return segments;
}

// Where blocks of the history lay that is not mapped any more: the viewer looks for a segment of
// every block that it draws.
allocator::MappedStretches unmappedSince(const allocator::MappedStretches& mapped,
                                         const MemoryHistory& history) {
  std::map<const std::byte*, const std::byte*> gone;  // begin, end; apart
  const auto cut = [&](const std::byte* begin, const std::byte* end) {
    auto next = std::upper_bound(
        mapped.begin(), mapped.end(), begin,
        [](const std::byte* at, const MappedStretch& stretch) { return at < stretch.begin; });
    if (next != mapped.begin()) --next;
    for (; begin < end; ++next) {
      const std::byte* const until =
          next == mapped.end() ? end : std::clamp(next->begin, begin, end);
      if (begin < until) {
        auto& known = gone[begin];
        known = std::max(known, until);
      }
      if (next == mapped.end()) return;
      begin = std::max(begin, next->begin + next->bytes);
    }
  };
  history.events().forEach([&](const MemoryEvent& event) {
    const auto* const begin = static_cast<const std::byte*>(event.block);
    cut(begin, begin + event.bytes);
  });
  allocator::MappedStretches stretches;
  const std::byte* covered = nullptr;
  for (const auto& [first, end] : gone) {
    const std::byte* const begin = std::max(first, covered);
    if (begin >= end) continue;
    stretches.push_back({begin, end - begin, false, allocator::Stream::kDefault});
    covered = end;
  }
  return stretches;
}

class Writer {
 public:
  Writer(const MemoryHistory& history, metrics::WholeFile& file)
      : history_(history), pickle_(file) {}

  void write(const allocator::MappedStretches& mapped) {
    history_.events().forEach([this](const MemoryEvent& event) {
      if (event.allocated) made_by_[event.block] = event.by;
    });
    std::vector<Segment> segments = joined(mapped, true);
    for (Segment& segment : joined(unmappedSince(mapped, history_), false))
      segments.push_back(std::move(segment));
    pickle_.dict([&] {
      pickle_.key("segments");
      pickle_.list([&] {
        for (const Segment& segment : segments) add(segment);
      });
      pickle_.key("device_traces");
      pickle_.list([&] { addEvents(); });
      pickle_.key("allocator_settings");
      pickle_.dict([] {});
      pickle_.key("external_annotations");
      pickle_.list([] {});
    });
    pickle_.end();
  }

 private:
  void entry(const char* key, std::int64_t value) {
    pickle_.key(key);
    pickle_.number(value);
  }
  void entry(const char* key, const char* value) {
    pickle_.key(key);
    pickle_.text(value);
  }

  void addFrames(const WorkInHand& by) {
    pickle_.key("frames");
    pickle_.list([&] {
      if (*by.what == '\0') return;
      pickle_.dict([&] {
        entry("name", by.what);
        entry("filename", by.kind);
        entry("line", std::int64_t{0});
      });
    });
  }

  void add(const Segment& segment) {
    const auto live = [](const MappedStretch& stretch) { return stretch.live; };
    const Bytes live_bytes = segment.sum(live);
    const bool large =
        std::any_of(segment.stretches.begin(), segment.stretches.end(),
                    [](const MappedStretch& stretch) { return stretch.bytes > kLeastLarge; });
    pickle_.dict([&] {
      entry("device", std::int64_t{0});
      entry("address", addressOf(segment.stretches.front().begin));
      entry("total_size", segment.sum([](const MappedStretch&) { return true; }));
      entry("allocated_size", live_bytes);
      entry("active_size", live_bytes);
      entry("requested_size", live_bytes);
      entry("stream", static_cast<std::int64_t>(segment.stretches.front().stream));
      entry("segment_type", !segment.mapped ? "unmapped" : large ? "large" : "small");
      pickle_.key("segment_pool_id");
      pickle_.list([&] {
        pickle_.number(0);
        pickle_.number(0);
      });
      pickle_.key("is_expandable");
      pickle_.flag(true);
      addFrames({});
      pickle_.key("blocks");
      pickle_.longList([&, next = segment.stretches.begin()]() mutable {
        addBlock(*next);
        return ++next != segment.stretches.end();
      });
    });
  }

  void addBlock(const MappedStretch& stretch) {
    pickle_.dict([&] {
      entry("address", addressOf(stretch.begin));
      entry("size", stretch.bytes);
      entry("requested_size", stretch.live ? stretch.bytes : 0);
      entry("state", stretch.live ? "active_allocated" : "inactive");
      const auto by = made_by_.find(stretch.begin);
      addFrames(stretch.live && by != made_by_.end() ? by->second : WorkInHand{});
    });
  }

  void addEvents() {
    std::vector<MemoryEvent> events;
    history_.events().forEach([&](const MemoryEvent& event) { events.push_back(event); });
    pickle_.longList([&, next = events.begin()]() mutable {
      if (next == events.end()) return false;
      addEvent(*next, next->allocated ? "alloc" : "free_requested");
      if (!next->allocated) addEvent(*next, "free_completed");
      return ++next != events.end();
    });
  }

  void addEvent(const MemoryEvent& event, const char* action) {
    pickle_.dict([&] {
      entry("action", action);
      entry("addr", addressOf(event.block));
      entry("size", event.bytes);
      entry("stream", std::int64_t{0});
      entry("time_us", (event.at_ns + offset_ns_) / 1000);
      addFrames(event.by);
    });
  }

  const MemoryHistory& history_;
  Pickle pickle_;
  const std::int64_t offset_ns_ = steadyToUnixNs();
  std::unordered_map<const void*, WorkInHand> made_by_;
};

}  // namespace

void writeSnapshotFile(const allocator::MappedStretches& mapped, const MemoryHistory& history,
                       metrics::WholeFile& file) {
  Writer(history, file).write(mapped);
}

}  // namespace ebbtide::plugin
