// The orders in which buffers are placed one after the other.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "placement/live_sections.hpp"

namespace ebbtide::scheduler {

struct PlacementOrder {
  std::string_view name;  // "size"
  std::vector<std::int32_t> spans;
};

// By what follows, largest first, then the earlier birth. The load of a buffer is the largest of
// its sections.
std::vector<PlacementOrder> packingOrders(const LiveSections& sections);
std::vector<PlacementOrder> searchOrders(const LiveSections& sections);

}  // namespace ebbtide::scheduler
