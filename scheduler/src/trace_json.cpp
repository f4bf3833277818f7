// The file form of a trace, "ebbtide-trace-1".
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "ebbtide/scheduler/trace.hpp"
#include "trace_check.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// Never destroyed: a planner's thread may still read a trace while the process exits.
const std::map<Kind, std::string>& kindNames() {
  static const auto& names = *new std::map<Kind, std::string>{
      {Kind::kAlloc, "alloc"},     {Kind::kFree, "free"},         {Kind::kOpBegin, "begin"},
      {Kind::kOpEnd, "end"},       {Kind::kUnpack, "unpack"},     {Kind::kBackwardNode, "node"},
      {Kind::kRelease, "release"}, {Kind::kNaturalDeath, "death"}};
  return names;
}

Kind kindFromName(const std::string& name) {
  for (const auto& [kind, text] : kindNames()) {
    if (text == name) return kind;
  }
  throw std::invalid_argument("trace: unknown event '" + name + "'");
}

// nlohmann narrows numbers without a word.
template <typename Integer>
Integer integer(const nlohmann::json& item, const char* list, std::size_t index) {
  if (!item.is_number_integer()) failTrace(list, index, item.dump() + " is not a whole number");
  const bool fits = item.is_number_unsigned() ? std::in_range<Integer>(item.get<std::uint64_t>())
                                              : std::in_range<Integer>(item.get<std::int64_t>());
  if (!fits) failTrace(list, index, item.dump() + " is out of range");
  return item.get<Integer>();
}

std::vector<ValueId> idList(const nlohmann::json& items, const char* list, std::size_t index) {
  std::vector<ValueId> ids;
  for (const auto& item : items) ids.push_back(integer<ValueId>(item, list, index));
  return ids;
}

Trace readTrace(const nlohmann::json& j) {
  if (j.at("format") != "ebbtide-trace-1")
    throw std::invalid_argument("trace: format is not ebbtide-trace-1");
  Trace trace;
  trace.signature = integer<std::uint64_t>(j.at("signature"), "signature", 0);
  trace.base_bytes = integer<Bytes>(j.at("base_bytes"), "base_bytes", 0);
  trace.duration_ns = integer<Nanoseconds>(j.at("duration_ns"), "duration_ns", 0);
  for (const auto& o : j.at("ops")) {
    const std::size_t i = trace.ops.size();
    trace.ops.push_back({o.at(0), integer<std::uint64_t>(o.at(1), "ops", i),
                         integer<Nanoseconds>(o.at(2), "ops", i), o.at(3),
                         idList(o.at(4), "ops", i), idList(o.at(5), "ops", i)});
  }
  for (const auto& v : j.at("values")) {
    const auto id = [&, i = trace.values.size()](std::size_t field) {
      return integer<std::int32_t>(v.at(field), "values", i);
    };
    trace.values.push_back({id(0), id(1), id(2), id(3), v.at(4)});
  }
  for (const auto& u : j.at("use_value")) {
    trace.use_value.push_back(integer<ValueId>(u, "use_value", trace.use_value.size()));
  }
  for (const auto& b : j.at("blocks")) {
    trace.blocks.push_back(
        {integer<Bytes>(b.at(0), "blocks", trace.blocks.size()), b.at(1), b.at(2)});
  }
  for (const auto& e : j.at("events")) {
    const std::size_t i = trace.events.size();
    trace.events.push_back({kindFromName(e.at(0)), integer<std::int32_t>(e.at(1), "events", i),
                            integer<Nanoseconds>(e.at(2), "events", i)});
  }
  return trace;
}

}  // namespace

std::string toJson(const Trace& trace) {
  nlohmann::json j;
  j["format"] = "ebbtide-trace-1";
  j["signature"] = trace.signature;
  j["base_bytes"] = trace.base_bytes;
  j["duration_ns"] = trace.duration_ns;
  auto& ops = j["ops"] = nlohmann::json::array();
  for (const TraceOp& op : trace.ops) {
    ops.push_back({op.name, op.signature, op.duration_ns, op.rerunnable, op.inputs, op.outputs});
  }
  auto& values = j["values"] = nlohmann::json::array();
  for (const TraceValue& v : trace.values) {
    values.push_back({v.producer, v.block, v.previous_epoch, v.overwritten_by, v.parameter});
  }
  j["use_value"] = trace.use_value;
  auto& blocks = j["blocks"] = nlohmann::json::array();
  for (const TraceBlock& b : trace.blocks) blocks.push_back({b.bytes, b.before_step, b.ours});
  auto& events = j["events"] = nlohmann::json::array();
  for (const TraceEvent& e : trace.events)
    events.push_back({kindNames().at(e.kind), e.id, e.at_ns});
  return j.dump();
}

Trace traceFromJson(const std::string& text) {
  try {
    Trace trace = readTrace(nlohmann::json::parse(text));
    checkTrace(trace);
    return trace;
  } catch (const nlohmann::json::exception& error) {
    throw std::invalid_argument(std::string("trace: ") + error.what());
  }
}

}  // namespace ebbtide::scheduler
