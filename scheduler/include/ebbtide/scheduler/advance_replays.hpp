// Replays ahead of a wait. A rank of a pipeline asks for a message and stands still until it comes;
// what it replays meanwhile costs no time:
//
//   before:   F1 | wait ........ | replay replay B0     the gradient for B0 is under way
//   after:    F1 | replay replay wait .. | B0           the step is shorter by both replays
//
// Done to a schedule whose replays are chosen already: nothing is replayed more or less often, it
// is held for longer.
#pragma once

#include "ebbtide/scheduler/graph.hpp"
#include "ebbtide/scheduler/schedule.hpp"

namespace ebbtide::scheduler {

struct AdvancedReplays {
  Schedule schedule;
  std::int64_t moved = 0;    // replays
  Nanoseconds moved_ns = 0;  // that they take
};

// Moves replays, and the drops that go with them, to before the latest op that waits (Op::waits) of
// those before them. In the order in which they come, as far as the peak stays within `cap_bytes`:
// of an event's replays the first ones, of the next event's again. A replay stays where it is if
// something that it reads is made or its result dropped after the wait. Where the schedule is over
// the cap already, it is not more so afterwards. Takes one simulation and one pass over the steps.
// Without ops that wait, or on a graph that is no recorded step, the schedule is as before.
// Precondition: validate() accepts the schedule; it accepts the result.
AdvancedReplays advanceReplays(const Graph& graph, const Schedule& schedule, Bytes cap_bytes);

}  // namespace ebbtide::scheduler
