#include "placement/floor_search.hpp"

#include <algorithm>
#include <limits>

namespace ebbtide::scheduler {

FloorSearch::FloorSearch(const LiveSections& sections, const TimeNeighbours& neighbours,
                         const std::vector<std::int32_t>& order, Bytes height_bytes)
    : sections_(sections), order_(order), state_(sections, neighbours, height_bytes) {}

FloorSearch::Outcome FloorSearch::run(const FloorSearchLimits& limits) {
  limits_ = limits;
  if (!state_.check()) return Outcome::kImpossible;
  for (const std::int32_t span : sections_.first) {
    if (!state_.rest(span)) return Outcome::kImpossible;
  }
  if (solve({0, sections_.count(), 0, order_})) return Outcome::kFound;
  return stopped_ ? Outcome::kStopped : Outcome::kImpossible;
}

bool FloorSearch::stop() {
  const bool cancelled =
      limits_.cancelled != nullptr && limits_.cancelled->load(std::memory_order_relaxed);
  if (++nodes_ > limits_.nodes || cancelled || limits_.end.reached()) stopped_ = true;
  return stopped_;
}

// Leaves the state as it was, unless it finds a placement of the part or has to stop.
bool FloorSearch::solve(const Part& part) {
  if (isSplit(part)) return solveApart(part);
  const std::size_t mark = state_.mark();
  bool solved = false;
  while (!stop()) {
    const std::int32_t span = lowest(part);
    if (span == kNone) return true;
    if (restOrLift(part, span, solved)) continue;
    if (!solved && !stopped_) state_.undo(mark);
    return solved;
  }
  return false;
}

// Returns whether the part has to be searched on, with `span` lifted.
bool FloorSearch::restOrLift(const Part& part, std::int32_t span, bool& solved) {
  state_.clearConflict();
  if (state_.ground(span) == state_.floor(span)) {
    const bool need_not_lift = state_.mayAsWellRest(span);
    const std::size_t mark = state_.mark();
    solved = state_.rest(span) && solve(part);
    if (solved || stopped_) return false;
    state_.undo(mark);
    if (!state_.takeFromConflict(span)) return false;
    if (need_not_lift) {
      state_.addSurroundings(span);
      return false;
    }
  }
  return state_.lift(span);
}

bool FloorSearch::isSplit(const Part& part) const {
  for (std::int32_t s = part.first + 1; s < part.end; ++s) {
    if (!state_.isCrossed(s)) return true;
  }
  return false;
}

// The part with the least room first: where it fails the others need not be searched.
bool FloorSearch::solveApart(const Part& part) {
  const std::size_t mark = state_.mark();
  std::vector<Part> parts = split(part);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.room < b.room; });
  for (const Part& one : parts) {
    if (one.spans.empty() || solve(one)) continue;
    if (!stopped_) state_.undo(mark);
    return false;
  }
  return true;
}

std::vector<FloorSearch::Part> FloorSearch::split(const Part& part) const {
  std::vector<Part> parts;
  std::vector<std::size_t> part_of;  // of each section
  for (std::int32_t s = part.first; s < part.end; ++s) {
    const Bytes room = state_.room(s);
    if (s == part.first || !state_.isCrossed(s)) parts.push_back({s, s, room, {}});
    parts.back().end = s + 1;
    parts.back().room = std::min(parts.back().room, room);
    part_of.push_back(parts.size() - 1);
  }
  for (const std::int32_t span : part.spans) {
    if (state_.isPlaced(span)) continue;
    parts[part_of[sections_.spans[span].first - part.first]].spans.push_back(span);
  }
  return parts;
}

std::int32_t FloorSearch::lowest(const Part& part) const {
  std::int32_t found = kNone;
  Bytes floor = std::numeric_limits<Bytes>::max();
  for (const std::int32_t span : part.spans) {
    if (state_.isPlaced(span) || state_.floor(span) >= floor) continue;
    found = span;
    floor = state_.floor(span);
  }
  return found;
}

}  // namespace ebbtide::scheduler
