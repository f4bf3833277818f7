#include "model/trace_check.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "ebbtide/scheduler/most_amount.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// Walks the lists once; `what` of a message is the field as TraceOp, TraceValue ... name it.
class TraceChecker {
 public:
  explicit TraceChecker(const Trace& trace) : trace_(trace) {}

  void check() {
    if (trace_.base_bytes < 0 || trace_.base_bytes > kMostAmount) {
      throw std::invalid_argument("trace: base_bytes " + std::to_string(trace_.base_bytes) +
                                  " is out of range");
    }
    if (trace_.host.bytes_per_second < 0 || trace_.host.least_bytes < 0) {
      throw std::invalid_argument("trace: the host's bytes per second or least bytes are negative");
    }
    total_ = trace_.base_bytes;
    checkOps();
    checkBlocks();
    checkValues();
    checkGroup();
    checkMessages();
    checkScopes();
    checkMapped();
    checkEvents();
    checkOrder();
  }

 private:
  enum class None : std::uint8_t { kRefused, kAllowed };

  static void checkId(std::int64_t id, std::size_t limit, None none, const char* list,
                      std::size_t index, const char* what) {
    if (id >= 0 && static_cast<std::size_t>(id) < limit) return;
    if (id == kNone && none == None::kAllowed) return;
    failTrace(list, index, std::string(what) + " " + std::to_string(id) + " is out of range");
  }

  // Each block, each value in it and each event on it adds its bytes to some sum at most once, and
  // so does each message.
  void count(BlockId block, const char* list, std::size_t index) {
    addBytes(trace_.blocks[block].bytes, list, index);
  }

  void addBytes(Bytes bytes, const char* list, std::size_t index) {
    total_ += bytes;  // two terms of at most kMostAmount
    if (total_ > kMostAmount) failTrace(list, index, "brings the bytes of all to more than 2^60");
  }

  void checkOps() const {
    const std::size_t values = trace_.values.size();
    for (std::size_t i = 0; i < trace_.ops.size(); ++i) {
      if (trace_.ops[i].duration_ns < 0) failTrace("ops", i, "has a negative duration");
      for (ValueId v : trace_.ops[i].inputs) checkId(v, values, None::kRefused, "ops", i, "input");
      for (ValueId v : trace_.ops[i].outputs) {
        checkId(v, values, None::kRefused, "ops", i, "output");
      }
    }
  }

  void checkBlocks() {
    for (std::size_t i = 0; i < trace_.blocks.size(); ++i) {
      const Bytes bytes = trace_.blocks[i].bytes;
      if (bytes < 0) failTrace("blocks", i, "has negative bytes");
      if (bytes > kMostAmount) failTrace("blocks", i, "has more than 2^60 bytes");
      count(static_cast<BlockId>(i), "blocks", i);
    }
  }

  void checkValues() {
    const std::size_t ops = trace_.ops.size();
    for (std::size_t i = 0; i < trace_.values.size(); ++i) {
      const TraceValue& value = trace_.values[i];
      const auto id = [i](std::int64_t field, std::size_t limit, const char* what) {
        checkId(field, limit, None::kAllowed, "values", i, what);
      };
      id(value.producer, ops, "producer");
      id(value.block, trace_.blocks.size(), "block");
      id(value.previous_epoch, trace_.values.size(), "previous_epoch");
      id(value.overwritten_by, ops, "overwritten_by");
      if (value.block != kNone) count(value.block, "values", i);
      checkCodec(value, i);
    }
    for (std::size_t i = 0; i < trace_.use_value.size(); ++i) {
      checkId(trace_.use_value[i], trace_.values.size(), None::kAllowed, "use_value", i, "value");
    }
  }

  void checkCodec(const TraceValue& value, std::size_t index) const {
    const bool whole = value.block == kNone
                           ? value.encoded_bytes == 0
                           : value.encoded_bytes <= trace_.blocks[value.block].bytes;
    if (value.encoded_bytes < 0 || !whole) {
      failTrace("values", index, "has encoded bytes that are not within its block's");
    }
    if (value.codec_ns < 0) failTrace("values", index, "has a negative time to encode it");
  }

  void checkGroup() const {
    const bool rank_within = trace_.group_rank >= 0 && trace_.group_rank < trace_.group_size;
    const bool none = trace_.group_rank == kNone && trace_.group_size == 0;
    if (!rank_within && !none) {
      throw std::invalid_argument("trace: group_rank " + std::to_string(trace_.group_rank) +
                                  " is none of a group of " + std::to_string(trace_.group_size));
    }
    if (none && !trace_.messages.empty()) {
      throw std::invalid_argument("trace: has messages, but no group that carries them");
    }
  }

  void checkMessages() {
    const auto ranks = static_cast<std::size_t>(trace_.group_size);
    for (std::size_t i = 0; i < trace_.messages.size(); ++i) {
      const TraceMessage& message = trace_.messages[i];
      checkId(message.peer, ranks, message.receive ? None::kAllowed : None::kRefused, "messages", i,
              "peer");
      if (message.bytes < 0) failTrace("messages", i, "has negative bytes");
      if (message.bytes > kMostAmount) failTrace("messages", i, "has more than 2^60 bytes");
      if (message.busy_ns < 0) failTrace("messages", i, "has a negative time");
      addBytes(message.bytes, "messages", i);
    }
  }

  void checkScopes() const {
    for (std::size_t i = 0; i < trace_.scopes.size(); ++i) {
      const TraceScope& scope = trace_.scopes[i];
      if (scope.begin_busy_ns < 0) failTrace("scopes", i, "has a negative time");
      if (scope.end_busy_ns < scope.begin_busy_ns) failTrace("scopes", i, "ends before it begins");
    }
  }

  void checkMapped() const {
    for (std::size_t i = 0; i < trace_.mapped.size(); ++i) {
      const TraceMapped& mapped = trace_.mapped[i];
      if (mapped.at_ns < (i == 0 ? 0 : trace_.mapped[i - 1].at_ns))
        failTrace("mapped", i, "is before the one before it");
      if (mapped.bytes < 0) failTrace("mapped", i, "has negative bytes");
    }
  }

  // Of messages and scopes: one event each to begin with, in their own order; a scope ends once,
  // after that.
  void checkOrder() const {
    std::int32_t messages = 0;
    std::int32_t scopes = 0;
    std::vector<bool> ended(trace_.scopes.size(), false);
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& event = trace_.events[i];
      const bool in_turn = (event.kind != Kind::kMessage || event.id == messages++) &&
                           (event.kind != Kind::kScopeBegin || event.id == scopes++);
      if (!in_turn) failTrace("events", i, "comes out of turn");
      if (event.kind != Kind::kScopeEnd) continue;
      if (event.id >= scopes || ended[event.id]) failTrace("events", i, "ends no open scope");
      ended[event.id] = true;
    }
    if (static_cast<std::size_t>(messages) != trace_.messages.size())
      failTrace("messages", static_cast<std::size_t>(messages), "has no event");
    const auto open = std::find(ended.begin(), ended.end(), false);
    if (open != ended.end())
      failTrace("scopes", static_cast<std::size_t>(open - ended.begin()), "does not end");
  }

  void checkEvents() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& event = trace_.events[i];
      if (event.at_ns < 0) failTrace("events", i, "has a negative time");
      if (event.kind == Kind::kBackwardNode || event.kind == Kind::kBackwardPass) continue;
      checkId(event.id, limitOf(event.kind), None::kRefused, "events", i, "id");
      if (event.kind == Kind::kAlloc || event.kind == Kind::kFree) count(event.id, "events", i);
    }
  }

  std::size_t limitOf(Kind kind) const {
    switch (kind) {
      case Kind::kAlloc:
      case Kind::kFree:
        return trace_.blocks.size();
      case Kind::kOpBegin:
      case Kind::kOpEnd:
        return trace_.ops.size();
      case Kind::kUnpack:
      case Kind::kRelease:
        return trace_.use_value.size();
      case Kind::kLastReference:
        return trace_.values.size();
      case Kind::kMessage:
        return trace_.messages.size();
      case Kind::kScopeBegin:
      case Kind::kScopeEnd:
        return trace_.scopes.size();
      case Kind::kBackwardNode:
      case Kind::kBackwardPass:
        break;
    }
    return 0;
  }

  const Trace& trace_;
  Bytes total_ = 0;
};

}  // namespace

void failTrace(const char* list, std::size_t index, const std::string& what) {
  throw std::invalid_argument("trace: " + std::string(list) + "[" + std::to_string(index) + "] " +
                              what);
}

void checkTrace(const Trace& trace) {
  TraceChecker(trace).check();
}

}  // namespace ebbtide::scheduler
