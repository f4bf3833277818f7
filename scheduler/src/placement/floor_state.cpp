#include "placement/floor_state.hpp"

#include <algorithm>

namespace ebbtide::scheduler {

FloorState::FloorState(const LiveSections& sections, const TimeNeighbours& neighbours,
                       Bytes height_bytes)
    : sections_(sections),
      neighbours_(neighbours),
      height_bytes_(height_bytes),
      floors_(sections.spans.size(), 0),
      placed_(sections.spans.size(), 0),
      latest_(sections.spans.size(), kNone),
      blame_(sections.spans.size(), 0),
      ground_(sections.load.size(), 0),
      left_bytes_(sections.load),
      highest_(sections.load.size(), 0),
      crossing_(sections.load.size(), 0),
      words_((sections.spans.size() + 63) / 64),
      conflict_(words_, 0) {
  for (const LiveSpan& span : sections.spans) {
    for (std::int32_t s = span.first + 1; s < span.end; ++s) ++crossing_[s];
  }
}

Bytes FloorState::ground(std::int32_t span) const {
  const LiveSpan& live = sections_.spans[span];
  return *std::max_element(ground_.begin() + live.first, ground_.begin() + live.end);
}

Bytes FloorState::room(std::int32_t section) const {
  return height_bytes_ - ground_[section] - left_bytes_[section];
}

bool FloorState::mayAsWellRest(std::int32_t span) const {
  const LiveSpan& live = sections_.spans[span];
  for (std::int32_t s = live.first; s < live.end; ++s) {
    if (ground_[s] != floors_[span]) return false;
  }
  const auto within = [&](std::int32_t other) {
    const LiveSpan& one = sections_.spans[other];
    return isPlaced(other) || (one.first >= live.first && one.end <= live.end);
  };
  const auto others = neighbours_.of(span);
  return std::all_of(others.begin(), others.end(), within);
}

bool FloorState::check() {
  return fitAll(0, sections_.count(), 0);
}

// What is left and alive with it has no lower floor, so it comes above.
bool FloorState::rest(std::int32_t span) {
  const LiveSpan& live = sections_.spans[span];
  const Bytes top = floors_[span] + live.bytes;
  placed_[span] = 1;
  changes_.push_back({Change::Kind::kPlaced, span});
  grounds_before_.insert(grounds_before_.end(), ground_.begin() + live.first,
                         ground_.begin() + live.end);
  for (std::int32_t s = live.first; s < live.end; ++s) {
    ground_[s] = top;
    left_bytes_[s] -= live.bytes;
    if (s > live.first) --crossing_[s];
  }
  std::int32_t first = live.first, end = live.end;
  for (const std::int32_t other : neighbours_.of(span)) {
    if (isPlaced(other) || floors_[other] >= top) continue;
    setFloor(other, top, Change::Kind::kRaised, span);
    first = std::min(first, sections_.spans[other].first);
    end = std::max(end, sections_.spans[other].end);
  }
  return fitAll(first, end, top);
}

// It rests on a buffer left, at the lowest top of one or above.
bool FloorState::lift(std::int32_t span) {
  const LiveSpan& live = sections_.spans[span];
  const auto others = neighbours_.of(span);
  Bytes floor = height_bytes_;
  for (const std::int32_t other : others) {
    if (!isPlaced(other)) floor = std::min(floor, floors_[other] + sections_.spans[other].bytes);
  }
  addSurroundings(span);
  if (floor > height_bytes_ - live.bytes) return false;
  const auto set = static_cast<std::int32_t>(sets_.size() / words_);
  sets_.insert(sets_.end(), conflict_.begin(), conflict_.end());
  // Of buffers that are equal in all, the lowest may be any.
  for (const std::int32_t other : others) {
    const LiveSpan& twin = sections_.spans[other];
    const bool equal = twin.first == live.first && twin.end == live.end &&
                       twin.bytes == live.bytes && floors_[other] == floors_[span];
    if (equal && !isPlaced(other)) setFloor(other, floor, Change::Kind::kLifted, set);
  }
  setFloor(span, floor, Change::Kind::kLifted, set);
  return fitAll(live.first, live.end, floor);
}

// Some floors in [first, end) are `highest` now.
bool FloorState::fitAll(std::int32_t first, std::int32_t end, Bytes highest) {
  for (std::int32_t s = first; s < end; ++s) highest_[s] = std::max(highest_[s], highest);
  for (std::int32_t s = first; s < end; ++s) {
    if (fits(s)) continue;
    explain();
    return false;
  }
  return true;
}

// One machine, jobs with release dates: by their floors is the best order.
bool FloorState::fits(std::int32_t section) {
  const Bytes most = height_bytes_ - left_bytes_[section];
  if (left_bytes_[section] == 0 || highest_[section] <= most) return true;
  by_floor_.clear();
  Bytes highest = 0;
  for (const std::int32_t span : neighbours_.in(section)) {
    if (isPlaced(span)) continue;
    by_floor_.emplace_back(floors_[span], span);
    highest = std::max(highest, floors_[span]);
  }
  highest_[section] = highest;
  if (highest <= most) return true;
  std::sort(by_floor_.begin(), by_floor_.end());
  Bytes top = 0;
  for (const auto& [floor, span] : by_floor_) {
    top = std::max(top, floor) + sections_.spans[span].bytes;
  }
  return top <= height_bytes_;
}

// Of the section that does not fit: the highest buffers that alone are too many for it.
void FloorState::explain() {
  clearConflict();
  Bytes bytes = 0;
  for (auto one = by_floor_.rbegin(); one != by_floor_.rend(); ++one) {
    const auto [floor, span] = *one;
    bytes += sections_.spans[span].bytes;
    addReasons(span);
    ++blame_[span];
    if (floor + bytes > height_bytes_) return;
  }
}

void FloorState::addSurroundings(std::int32_t span) {
  addReasons(span);
  for (const std::int32_t other : neighbours_.of(span)) {
    if (isPlaced(other)) {
      conflict_[other / 64] |= std::uint64_t{1} << (other % 64);
    } else {
      addReasons(other);
    }
  }
}

// From the latest change back to one with a set, which has the reasons of those before it.
void FloorState::addReasons(std::int32_t span) {
  for (std::int32_t i = latest_[span]; i != kNone; i = changes_[i].latest) {
    const Change& change = changes_[i];
    if (change.kind == Change::Kind::kLifted) {
      const std::size_t set = words_ * change.reason;
      for (std::size_t word = 0; word < words_; ++word) conflict_[word] |= sets_[set + word];
      return;
    }
    conflict_[change.reason / 64] |= std::uint64_t{1} << (change.reason % 64);
  }
}

void FloorState::clearConflict() {
  std::fill(conflict_.begin(), conflict_.end(), 0);
}

bool FloorState::takeFromConflict(std::int32_t span) {
  const std::uint64_t bit = std::uint64_t{1} << (span % 64);
  const bool was_there = (conflict_[span / 64] & bit) != 0;
  conflict_[span / 64] &= ~bit;
  return was_there;
}

void FloorState::setFloor(std::int32_t span, Bytes floor, Change::Kind kind, std::int32_t reason) {
  changes_.push_back({kind, span, latest_[span], reason, floors_[span]});
  latest_[span] = static_cast<std::int32_t>(changes_.size()) - 1;
  floors_[span] = floor;
}

void FloorState::undo(std::size_t mark) {
  for (; changes_.size() > mark; changes_.pop_back()) {
    const Change& change = changes_.back();
    if (change.kind == Change::Kind::kPlaced) {
      unplace(change.span);
      continue;
    }
    floors_[change.span] = change.floor;
    latest_[change.span] = change.latest;
    if (change.kind == Change::Kind::kLifted) sets_.resize(words_ * change.reason);
  }
}

void FloorState::unplace(std::int32_t span) {
  const LiveSpan& live = sections_.spans[span];
  placed_[span] = 0;
  std::copy(grounds_before_.end() - (live.end - live.first), grounds_before_.end(),
            ground_.begin() + live.first);
  grounds_before_.resize(grounds_before_.size() - (live.end - live.first));
  for (std::int32_t s = live.first; s < live.end; ++s) {
    left_bytes_[s] += live.bytes;
    highest_[s] = std::max(highest_[s], floors_[span]);
    if (s > live.first) ++crossing_[s];
  }
}

}  // namespace ebbtide::scheduler
