// Plan: a schedule turned into what the executor does at each op and each unpack. Torch-free.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ebbtide/scheduler/graph_builder.hpp"
#include "ebbtide/scheduler/schedule.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

using scheduler::OpId;
using scheduler::UseId;
using scheduler::ValueId;

struct PlanPicture;

// TraceOp::kept_because: something that tells nobody (NumPy, a pointer) wrote into what the op
// gave.
inline constexpr const char* kWrittenUnseen = "changed by something unseen";

// All ids are the trace's.
struct Plan {
  struct Event {  // a node of the autograd graph that reads its saved values
    // Before its first unpack: replays, drops, and fetches of values from their copies.
    std::vector<scheduler::Step> prelude;
    std::vector<ValueId> drops;  // after it

    friend bool operator==(const Event&, const Event&) = default;
  };

  // The program asks for messages in a row, a receive among them, and then waits. The prelude runs
  // after the last message of the row, and holds up no message. Its replays read nothing that the
  // program does from there to the next event. So the prelude may also run later, at that event at
  // the latest.
  struct Wait {
    OpId ops = 0;                          // that have begun by then
    std::int32_t event = 0;                // the next one
    int before = 0;                        // messages at this place that come before it
    std::vector<scheduler::Step> prelude;  // as an event's

    friend bool operator==(const Wait&, const Wait&) = default;
  };

  // Plans of one program that do the same have one, whatever steps their figures are of.
  struct Course {};

  struct Codec {
    std::int64_t block_bytes = 0;  // of the value as recorded
    std::int64_t encoded_bytes = 0;
    std::int64_t codec_ns = 0;
  };

  // Per op of the program: what was recorded of it, and what the plan does with it.
  struct Ops {
    std::vector<std::uint64_t> signatures;          // the program that the plan is for
    std::vector<std::size_t> outputs;               // values that it made
    std::vector<bool> rerunnable;                   // as recorded
    std::vector<bool> written_unseen;               // what it gave was, as recorded
    std::vector<bool> replayed;                     // op record needed
    std::vector<std::string> replayed_name;         // empty: not replayed
    std::vector<std::vector<ValueId>> drops_after;  // first run
  };

  // Per value of the program: what was recorded of it, and how the plan keeps it or restores it.
  struct Values {
    std::vector<bool> hold;               // first copy retained from birth
    std::vector<ValueId> previous_epoch;  // what it was written over
    // The last event whose replays read it; kNone: none does.
    std::vector<std::int32_t> last_replay_read;
    std::vector<OpId> producer;         // what made it in the recorded step
    std::vector<bool> restored_later;   // a replay or its copy gives it again
    std::vector<std::int32_t> fetches;  // how often from its copy
    std::vector<bool> on_host;          // that copy is in the spill file, not bits
    std::vector<bool> saved_longer;     // than it is read, its graph being kept
    std::vector<Codec> codec;           // as recorded
  };

  // Per saved tensor, in pack order.
  struct Uses {
    std::vector<ValueId> value;
    std::vector<std::vector<std::int32_t>> events;  // in the order of its unpacks
  };

  // Who made the schedule, and in what time.
  struct Origin {
    std::string planner;
    std::string asked;  // the planner that was asked; "auto" asks several
    std::string note;   // where another one answers: why
    double plan_seconds = 0;
  };

  // What one step under the plan does and costs, as foreseen; times in ns.
  struct Prediction {
    std::int64_t peak_bytes = 0;
    std::int64_t recompute_ns = 0;
    std::int64_t replays = 0;
    std::int64_t replays_ahead = 0;  // of these before waits
    std::int64_t decodes = 0;        // fetches from bits
    std::int64_t host_fetches = 0;   // and from the host
    std::int64_t host_bytes = 0;     // of those values
    std::int64_t host_ns = 0;        // to write and read them
    std::int64_t drop_bytes = 0;     // of values that come back later, as often as they are dropped
    double overhead_ratio = 0;       // recompute_ns / the recorded step's duration
  };

  std::uint64_t signature = 0;
  std::shared_ptr<const Course> course = std::make_shared<const Course>();
  Ops ops;
  Values values;
  Uses uses;
  std::vector<Event> events;
  std::vector<Wait> waits;           // that have a prelude, in order
  bool expects_kept_graphs = false;  // a use is unpacked in several events
  bool feasible = false;             // without spilling
  bool receives = false;             // messages of other ranks come in the step
  Origin origin;
  Prediction predicted;
  std::shared_ptr<const PlanPicture> picture;  // nullptr: not drawn
  // Have all bytes of all of its replays been compared with their originals? An original that died
  // before has left its checksum. Until then steps verify the plan. Nothing else changes after the
  // plan was published: steps that begin at that moment read this without the session's lock, and
  // may verify once more.
  std::atomic<bool> trusted{false};

  // By a step that dropped so many. What was foreseen may be a little more: a value that the
  // program saved once more stays.
  bool isFollowedBy(std::int64_t dropped_bytes) const noexcept {
    return dropped_bytes >= predicted.drop_bytes / 20 * 19;
  }
  // Does each step under this plan do the same as under that one?
  bool doesAs(const Plan& other) const noexcept;
};

// Throws std::invalid_argument when the schedule replays before a forward op that does not wait:
// nothing triggers that.
std::shared_ptr<Plan> makePlan(const scheduler::Trace& trace, const scheduler::TraceGraph& graph,
                               const scheduler::Schedule& schedule);

}  // namespace ebbtide::plugin
