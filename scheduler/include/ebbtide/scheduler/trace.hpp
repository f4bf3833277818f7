// Trace: one recorded step, pure data. Saved as a file, it lets everything but the plugin run
// without torch.
//
// A step is one stream of events in program order. Blocks are allocations; a value is the contents
// of a storage between two writes, so an in-place op makes a new value in the same block.
//
//   alloc b0 · op 0 begin · alloc b1 · op 0 end (value 0 in b1) · pack …
//   backward 0 · unpack use 0 · release use 0 · free b1
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::scheduler {

using UseId = std::int32_t;    // index into Trace::use_value
using BlockId = std::int32_t;  // index into Trace::blocks

// A kBackwardNode of this name is no node. A node computes a checkpoint's region again, and the
// region saves a tensor. What the node has unpacked by then (the region's inputs) lives on.
inline constexpr const char* kCheckpointNode = "torch.utils.checkpoint";

struct TraceEvent {
  enum class Kind : std::uint8_t {
    kAlloc,          // id: block
    kFree,           // id: block; a block that this step did not allocate has its own id too
    kOpBegin,        // id: trace op
    kOpEnd,          // id: trace op
    kBackwardNode,   // an autograd node begins; id: its name, where Trace::nodes has one
    kUnpack,         // id: use
    kRelease,        // id: use
    kLastReference,  // id: value; from here on only uses keep it alive
    kMessage,        // id: message; asked for, not yet waited for
    kScopeBegin,     // id: scope
    kScopeEnd,       // id: scope
    kBackwardPass,   // a backward pass begins, before its first node; id unused
  };
  Kind kind = Kind::kAlloc;
  std::int32_t id = kNone;
  Nanoseconds at_ns = 0;  // since the step's start
};

struct TraceOp {
  std::string name;
  std::uint64_t signature = 0;  // op, argument metadata and the ids of its input values
  Nanoseconds duration_ns = 0;
  bool rerunnable = false;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string kept_because = {};  // of an op that is not rerunnable, where it is known
};

struct TraceValue {
  OpId producer = kNone;           // trace op; kNone: made outside recorded ops
  BlockId block = kNone;           // kNone: not in a block of ours
  ValueId previous_epoch = kNone;  // set when an op wrote over that value in place
  // Trace op; set by a write that no op recorded too (then the op after it, if there is one).
  OpId overwritten_by = kNone;
  bool parameter = false;  // a leaf that requires grad
  // Its contents, made of two kinds of words, as one bit a word, and the time to encode and decode
  // them once; 0: more kinds, or too small to be worth it.
  Bytes encoded_bytes = 0;
  Nanoseconds codec_ns = 0;
};

struct TraceBlock {
  Bytes bytes = 0;
  bool before_step = false;  // was live when the step began
  bool ours = false;  // made by a replay or by fetching from the spill store: not the program's
};

// Between ranks, as the program asked for it: the call returns at once, and the program waits for
// the message after the event. What lies between a receive and the thread's next work is mostly
// waiting.
struct TraceMessage {
  bool receive = false;
  std::int32_t peer = 0;  // rank in the group that carries it; kNone, of a receive: any
  Bytes bytes = 0;
  Nanoseconds busy_ns = 0;  // processor time of the training thread since the step's start

  bool operator==(const TraceMessage&) const = default;
};

// What the program says that it does: an action of a pipeline. "PP:2F0" (stage, action, microbatch)
// and "Forward 3", "Backward 3" (of a microbatch) are torch's names, "ebbtide:STAGE:MICROBATCH" the
// hint's.
struct TraceScope {
  std::string name;
  Nanoseconds begin_busy_ns = 0;  // processor time of the training thread since the step's start
  Nanoseconds end_busy_ns = 0;

  bool operator==(const TraceScope&) const = default;
};

// What was mapped from some moment on: blocks, cache and slack. Of use to who looks on, not to
// plans.
struct TraceMapped {
  Nanoseconds at_ns = 0;  // since the step's start
  Bytes bytes = 0;

  bool operator==(const TraceMapped&) const = default;
};

// Copies of values on the host, as measured where the step was recorded.
struct HostCopies {
  std::int64_t bytes_per_second = 0;  // written and read back once; 0: no copies there
  Bytes least_bytes = 0;              // of a value that may have one
};

struct Trace {
  std::uint64_t signature = 0;  // of all ops in order
  Bytes base_bytes = 0;         // live when the step began
  Nanoseconds duration_ns = 0;
  HostCopies host = {};
  std::vector<TraceOp> ops;  // forward, in program order
  std::vector<TraceValue> values;
  std::vector<ValueId> use_value;  // per use, in pack order
  std::vector<TraceBlock> blocks;
  std::vector<TraceEvent> events;
  std::vector<TraceMessage> messages;   // in the order of their events; each has one
  std::vector<TraceScope> scopes;       // in the order in which they begin; each ends once
  std::int32_t group_rank = kNone;      // this process's in the group of the messages
  std::int32_t group_size = 0;          // 0: no messages
  std::string group = {};               // its name; messages of other groups are left out
  std::vector<std::string> nodes = {};  // names of nodes, each once; may be empty
  std::vector<TraceMapped> mapped;  // whenever it changed, from the step's start on; may be empty
  // The optimizer's step is over before that event; kNone: not known. In no file.
  std::int64_t updated_at = kNone;
};

std::string toJson(const Trace& trace);  // format "ebbtide-trace-1"

// Throws std::invalid_argument: what is wrong and where.
Trace traceFromJson(const std::string& text);

}  // namespace ebbtide::scheduler
