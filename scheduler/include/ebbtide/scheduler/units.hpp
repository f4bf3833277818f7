// Units used by every component-facing structure of the scheduler.
#pragma once

#include <cstdint>

namespace ebbtide::scheduler {

using Bytes = std::int64_t;        // sizes, always as the allocator would map them
using Nanoseconds = std::int64_t;  // durations
using OpId = std::int32_t;         // index into Graph::ops, program order
using ValueId = std::int32_t;      // index into Graph::values

inline constexpr std::int32_t kNone = -1;

}  // namespace ebbtide::scheduler
