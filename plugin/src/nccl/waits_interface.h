/* What libnccl-profiler-ebbtide.so has besides NCCL's own symbols: the session finds these by name.
   Any thread; none of them waits or fails. */
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/communication_waits.hpp"

extern "C" {
/* From now on operations are watched, or no longer are: each one costs the host's polling. On
   until the first call. */
using ebbtide_nccl_watch_t = void (*)(bool on);
using ebbtide_nccl_totals_t = void (*)(ebbtide::plugin::CommunicationTotals* totals);
/* As CommunicationWaits::since(); returns how many were copied. */
using ebbtide_nccl_waits_since_t = std::size_t (*)(std::uint64_t* cursor,
                                                   ebbtide::plugin::CommunicationWait* out,
                                                   std::size_t room, std::uint64_t* missed);
}
