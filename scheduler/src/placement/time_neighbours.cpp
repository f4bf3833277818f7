#include "placement/time_neighbours.hpp"

namespace ebbtide::scheduler {

TimeNeighbours::TimeNeighbours(const LiveSections& sections) {
  const auto count = static_cast<std::int32_t>(sections.spans.size());
  std::vector<std::vector<std::int32_t>> members(sections.load.size()), born(members.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const LiveSpan& span = sections.spans[i];
    born[span.first].push_back(i);
    for (std::int32_t s = span.first; s < span.end; ++s) members[s].push_back(i);
  }
  members_from_.push_back(0);
  for (const auto& those : members) {
    members_.insert(members_.end(), those.begin(), those.end());
    members_from_.push_back(members_.size());
  }
  neighbours_from_.push_back(0);
  for (std::int32_t i = 0; i < count; ++i) {
    const LiveSpan& span = sections.spans[i];
    for (const std::int32_t other : members[span.first]) {
      if (other != i) neighbours_.push_back(other);
    }
    for (std::int32_t s = span.first + 1; s < span.end; ++s) {
      neighbours_.insert(neighbours_.end(), born[s].begin(), born[s].end());
    }
    neighbours_from_.push_back(neighbours_.size());
  }
}

std::int64_t TimeNeighbours::pairs(const LiveSections& sections) {
  std::vector<std::int64_t> born(sections.load.size() + 1, 0);
  std::vector<std::int64_t> dead(sections.load.size() + 1, 0);
  for (const LiveSpan& span : sections.spans) {
    ++born[span.first];
    ++dead[span.end];
  }
  std::int64_t live = 0, pairs = 0;
  for (std::size_t s = 0; s < sections.load.size(); ++s) {
    live -= dead[s];
    pairs += born[s] * live + born[s] * (born[s] - 1) / 2;
    live += born[s];
  }
  return pairs;
}

}  // namespace ebbtide::scheduler
