#include "trace_check.hpp"

#include <stdexcept>

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// Everything that a trace's bytes are summed to stays below: an exbibyte, an eighth of 63 bits.
constexpr Bytes kMostBytes = Bytes{1} << 60;

// Walks the lists once; `what` of a message is the field as TraceOp, TraceValue ... name it.
class TraceChecker {
 public:
  explicit TraceChecker(const Trace& trace) : trace_(trace) {}

  void check() {
    if (trace_.base_bytes < 0 || trace_.base_bytes > kMostBytes) {
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
    checkEvents();
  }

 private:
  enum class None : std::uint8_t { kRefused, kAllowed };

  static void checkId(std::int64_t id, std::size_t limit, None none, const char* list,
                      std::size_t index, const char* what) {
    if (id >= 0 && static_cast<std::size_t>(id) < limit) return;
    if (id == kNone && none == None::kAllowed) return;
    failTrace(list, index, std::string(what) + " " + std::to_string(id) + " is out of range");
  }

  // Each block, each value in it and each event on it adds its bytes to some sum at most once.
  void count(BlockId block, const char* list, std::size_t index) {
    total_ += trace_.blocks[block].bytes;  // two terms of at most kMostBytes
    if (total_ > kMostBytes) failTrace(list, index, "brings the bytes of all to more than 2^60");
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
      if (bytes > kMostBytes) failTrace("blocks", i, "has more than 2^60 bytes");
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

  void checkEvents() {
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      const TraceEvent& event = trace_.events[i];
      if (event.at_ns < 0) failTrace("events", i, "has a negative time");
      if (event.kind == Kind::kBackwardNode) continue;
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
      case Kind::kNaturalDeath:
        return trace_.values.size();
      case Kind::kBackwardNode:
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
