// Which buffers are alive at once, pair by pair: for the search, which cannot do without.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/live_sections.hpp"

namespace ebbtide::scheduler {

class TimeNeighbours {
 public:
  explicit TimeNeighbours(const LiveSections& sections);

  // Pairs of spans that share a section.
  static std::int64_t pairs(const LiveSections& sections);

  std::span<const std::int32_t> of(std::int32_t span) const {
    return {neighbours_.data() + neighbours_from_[span],
            neighbours_.data() + neighbours_from_[span + 1]};
  }
  std::span<const std::int32_t> in(std::int32_t section) const {
    return {members_.data() + members_from_[section], members_.data() + members_from_[section + 1]};
  }

 private:
  std::vector<std::size_t> neighbours_from_, members_from_;
  std::vector<std::int32_t> neighbours_, members_;
};

}  // namespace ebbtide::scheduler
