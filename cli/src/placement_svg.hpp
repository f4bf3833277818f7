#pragma once

#include <optional>
#include <string>

#include "ebbtide/scheduler/placement_csv.hpp"

namespace ebbtide::cli {

// The buffers over time and offset, the sum of live sizes and the height. Buffers of less than a
// few pixels are drawn together, so the file stays small whatever their number.
std::string toSvg(const scheduler::PlacementTable& table, const scheduler::Placement& placement,
                  std::optional<scheduler::Bytes> capacity_bytes, const std::string& title);

}  // namespace ebbtide::cli
