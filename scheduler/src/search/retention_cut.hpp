// What to keep at a price per byte: the exact minimum of
//   recompute time + price * bytes kept
// if each op is replayed at most once, as a minimum cut. With r_p = "op p is replayed" and
// a_u = "value u is read by an event or by a replay" (1: source side):
//   source -> a_u            infinite   an event reads u
//   r_p    -> a_u            infinite   p reads u
//   a_u    -> r_producer(u)  price      u is needed and not made again: it is kept
//   r_p    -> sink           duration   p is replayed
#pragma once

#include "search/retention.hpp"

namespace ebbtide::scheduler {

// `free` values (checkpoints chosen before) cost nothing to keep. The price falls a little along
// the program, so that of equal blocks the earlier ones are dropped first. Nanoseconds per byte.
Retention retentionAtPrice(const Graph& graph, const ScheduleBuilder& builder, double price,
                           const std::vector<bool>& free);

}  // namespace ebbtide::scheduler
