#include "touched_bytes.hpp"

#include <algorithm>
#include <iterator>

namespace emulated_gpu {
namespace {

std::vector<TouchedBytes::Range> rangesOf(const Access& access) {
  std::vector<TouchedBytes::Range> result;
  const auto begin = reinterpret_cast<std::uintptr_t>(access.begin);
  for (std::size_t i = 0; i < access.rows && access.bytes > 0; ++i) {
    const std::uintptr_t row = begin + i * access.pitch;
    if (!result.empty() && result.back().end == row) {
      result.back().end = row + access.bytes;
    } else {
      result.push_back({row, row + access.bytes});
    }
  }
  return result;
}

}  // namespace

bool comesBefore(const Touch& earlier, const Seen& seen) {
  const auto lane = static_cast<std::size_t>(earlier.lane);
  return lane < seen.size() && earlier.number <= seen[lane];
}

void TouchedBytes::check(const Access& access, const Seen& seen, const Conflict& conflict) const {
  for (const Range range : rangesOf(access)) {
    auto span = spans_.upper_bound(range.begin);
    if (span != spans_.begin() && std::prev(span)->second.end > range.begin) --span;
    for (; span != spans_.end() && span->first < range.end; ++span) {
      const Range both{std::max(range.begin, span->first), std::min(range.end, span->second.end)};
      const Touch& write = span->second.write;
      if (write.lane >= 0 && !comesBefore(write, seen)) conflict(write, true, both);
      if (!access.writes) continue;
      for (const Touch& read : span->second.reads) {
        if (!comesBefore(read, seen)) conflict(read, false, both);
      }
    }
  }
}

void TouchedBytes::note(const Access& access, const Touch& touch, const Seen& seen) {
  for (const Range range : rangesOf(access)) {
    access.writes ? noteWrite(range, touch) : noteRead(range, touch, seen);
  }
}

void TouchedBytes::splitAt(std::uintptr_t address) {
  auto span = spans_.upper_bound(address);
  if (span == spans_.begin()) return;
  --span;
  if (span->first == address || span->second.end <= address) return;
  spans_[address] = span->second;
  span->second.end = address;
}

void TouchedBytes::forget(Range range) {
  splitAt(range.begin);
  splitAt(range.end);
  spans_.erase(spans_.lower_bound(range.begin), spans_.lower_bound(range.end));
}

void TouchedBytes::noteWrite(Range range, const Touch& touch) {
  forget(range);
  spans_[range.begin] = {range.end, touch, {}};
  mergeIn(range);
}

void TouchedBytes::noteRead(Range range, const Touch& touch, const Seen& seen) {
  splitAt(range.begin);
  splitAt(range.end);
  const auto read = [&](Span& span) {
    std::erase_if(span.reads, [&](const Touch& each) { return comesBefore(each, seen); });
    span.reads.push_back(touch);
  };
  std::uintptr_t at = range.begin;
  for (auto span = spans_.lower_bound(at); at < range.end; ++span) {
    const std::uintptr_t next = span == spans_.end() ? range.end : std::min(span->first, range.end);
    if (at < next) span = spans_.insert_or_assign(at, Span{next, {}, {}}).first;
    read(span->second);
    at = span->second.end;
  }
  mergeIn(range);
}

// Neighbours that tell the same are one, from the span before the range to the one after.
void TouchedBytes::mergeIn(Range range) {
  auto span = spans_.lower_bound(range.begin);
  if (span != spans_.begin()) --span;
  while (span != spans_.end() && span->first <= range.end) {
    const auto next = std::next(span);
    if (next == spans_.end() || next->first > range.end) break;
    const bool same = span->second.end == next->first && span->second.write == next->second.write &&
                      span->second.reads == next->second.reads;
    if (!same) {
      span = next;
      continue;
    }
    span->second.end = next->second.end;
    spans_.erase(next);
  }
}

}  // namespace emulated_gpu
