// One buffer after the other, each into a gap between those that were placed before it.
#pragma once

#include <vector>

#include "base/search_end.hpp"
#include "placement/live_sections.hpp"

namespace ebbtide::scheduler {

enum class Fit {
  kFirst,  // the lowest gap that is large enough
  kBest,   // the smallest one, the lowest of equals; above all others if there is none
};

struct Packing {
  std::vector<Bytes> offsets;  // of each span; empty: given up
  Bytes height_bytes = 0;
  std::int32_t given_up_at = kNone;  // the span that did not fit
};

// Gives up at its end, and when the height would not be below `below_bytes`. `order`: numbers
// of all spans.
Packing packInOrder(const LiveSections& sections, const std::vector<std::int32_t>& order, Fit fit,
                    Bytes below_bytes, const SearchEnd& end);

}  // namespace ebbtide::scheduler
