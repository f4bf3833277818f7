#include "io/trace_json.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "base/json_text.hpp"
#include "model/trace_check.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = TraceEvent::Kind;

// Never destroyed: a planner's thread may still read a trace while the process exits.
const std::map<Kind, std::string>& kindNames() {
  static const auto& names = *new std::map<Kind, std::string>{
      {Kind::kAlloc, "alloc"},      {Kind::kFree, "free"},           {Kind::kOpBegin, "begin"},
      {Kind::kOpEnd, "end"},        {Kind::kUnpack, "unpack"},       {Kind::kBackwardNode, "node"},
      {Kind::kRelease, "release"},  {Kind::kLastReference, "death"}, {Kind::kMessage, "message"},
      {Kind::kScopeBegin, "scope"}, {Kind::kScopeEnd, "scope_end"},  {Kind::kBackwardPass, "pass"}};
  return names;
}

// One item of a list of the file, a list of its own: fields have places, not names.
class Row {
 public:
  // The last `optional` fields may be missing, all of them.
  Row(const nlohmann::json& item, const char* list, std::size_t index, std::size_t fields,
      std::size_t optional = 0)
      : item_(item), list_(list), index_(index) {
    if (!item.is_array() || (item.size() != fields && item.size() != fields - optional)) {
      fail("is not a list of " + std::to_string(fields));
    }
  }

  bool has(std::size_t field) const { return field < item_.size(); }

  // nlohmann narrows numbers without a word.
  template <typename Integer>
  Integer integer(std::size_t field) const {
    return integer<Integer>(item_[field]);
  }

  std::vector<ValueId> ids(std::size_t field) const {
    if (!item_[field].is_array()) fail("field " + std::to_string(field) + " is not a list");
    std::vector<ValueId> ids;
    for (const auto& item : item_[field]) ids.push_back(integer<ValueId>(item));
    return ids;
  }

  bool flag(std::size_t field) const {
    if (!item_[field].is_boolean())
      fail("field " + std::to_string(field) + " is not a truth value");
    return item_[field].get<bool>();
  }

  bool isText(std::size_t field) const { return item_[field].is_string(); }

  std::string text(std::size_t field) const {
    if (!item_[field].is_string()) fail("field " + std::to_string(field) + " is not a text");
    return item_[field].get<std::string>();
  }

  Kind kind(std::size_t field) const {
    const std::string name = text(field);
    for (const auto& [kind, known] : kindNames()) {
      if (known == name) return kind;
    }
    fail("is of the unknown kind '" + name + "'");
  }

 private:
  template <typename Integer>
  Integer integer(const nlohmann::json& item) const {
    const bool fits =
        item.is_number_integer() &&
        (item.is_number_unsigned() ? std::in_range<Integer>(item.get<std::uint64_t>())
                                   : std::in_range<Integer>(item.get<std::int64_t>()));
    if (fits) return item.get<Integer>();
    fail((item.is_number() ? item.dump() : "what stands for a number") +
         (item.is_number_integer() ? " is out of range" : " is not a whole number"));
  }

  [[noreturn]] void fail(const std::string& what) const { failTrace(list_, index_, what); }

  const nlohmann::json& item_;
  const char* list_;
  std::size_t index_;
};

void readLists(const JsonObject& file, Trace& trace) {
  for (const auto& item : file.list("ops")) {
    const Row row(item, "ops", trace.ops.size(), 6);
    const bool told = row.isText(3);
    trace.ops.push_back({row.text(0), row.integer<std::uint64_t>(1), row.integer<Nanoseconds>(2),
                         !told && row.flag(3), row.ids(4), row.ids(5),
                         told ? row.text(3) : std::string()});
  }
  for (const auto& item : file.list("values")) {
    const Row row(item, "values", trace.values.size(), 7, 2);
    trace.values.push_back({row.integer<OpId>(0), row.integer<BlockId>(1), row.integer<ValueId>(2),
                            row.integer<OpId>(3), row.flag(4),
                            row.has(5) ? row.integer<Bytes>(5) : 0,
                            row.has(6) ? row.integer<Nanoseconds>(6) : 0});
  }
  trace.use_value = file.ids("use_value");
  for (const auto& item : file.list("blocks")) {
    const Row row(item, "blocks", trace.blocks.size(), 3);
    trace.blocks.push_back({row.integer<Bytes>(0), row.flag(1), row.flag(2)});
  }
  for (const auto& item : file.list("events")) {
    const Row row(item, "events", trace.events.size(), 3);
    trace.events.push_back(
        {row.kind(0), row.integer<std::int32_t>(1), row.integer<Nanoseconds>(2)});
  }
}

void readNodes(const JsonObject& file, Trace& trace) {
  if (!file.has("nodes")) return;
  for (const auto& item : file.list("nodes")) {
    if (!item.is_string()) failTrace("nodes", trace.nodes.size(), "is not a text");
    trace.nodes.push_back(item.get<std::string>());
  }
}

void readMapped(const JsonObject& file, Trace& trace) {
  if (!file.has("mapped")) return;
  for (const auto& item : file.list("mapped")) {
    const Row row(item, "mapped", trace.mapped.size(), 2);
    trace.mapped.push_back({row.integer<Nanoseconds>(0), row.integer<Bytes>(1)});
  }
}

// What says what a rank does among others; no file of one rank alone has it.
void readRank(const JsonObject& file, Trace& trace) {
  trace.group = file.textOr("group", "");
  trace.group_rank = file.idOr("group_rank", kNone);
  trace.group_size = file.idOr("group_size", 0);
  if (file.has("messages")) {
    for (const auto& item : file.list("messages")) {
      const Row row(item, "messages", trace.messages.size(), 4);
      trace.messages.push_back({row.flag(0), row.integer<std::int32_t>(1), row.integer<Bytes>(2),
                                row.integer<Nanoseconds>(3)});
    }
  }
  if (!file.has("scopes")) return;
  for (const auto& item : file.list("scopes")) {
    const Row row(item, "scopes", trace.scopes.size(), 3);
    trace.scopes.push_back({row.text(0), row.integer<Nanoseconds>(1), row.integer<Nanoseconds>(2)});
  }
}

void writeRank(const Trace& trace, nlohmann::json& j) {
  if (trace.group_size > 0) {
    j["group"] = trace.group;
    j["group_rank"] = trace.group_rank;
    j["group_size"] = trace.group_size;
  }
  for (const TraceMessage& m : trace.messages)
    j["messages"].push_back({m.receive, m.peer, m.bytes, m.busy_ns});
  for (const TraceScope& s : trace.scopes)
    j["scopes"].push_back({s.name, s.begin_busy_ns, s.end_busy_ns});
}

}  // namespace

std::string toJson(const Trace& trace) {
  nlohmann::json j;
  j["format"] = "ebbtide-trace-1";
  j["signature"] = trace.signature;
  j["base_bytes"] = trace.base_bytes;
  j["duration_ns"] = trace.duration_ns;
  if (trace.host.bytes_per_second > 0) {
    j["host_bytes_per_second"] = trace.host.bytes_per_second;
    j["host_least_bytes"] = trace.host.least_bytes;
  }
  auto& ops = j["ops"] = nlohmann::json::array();
  for (const TraceOp& op : trace.ops) {
    nlohmann::json rerunnable = op.rerunnable;
    if (!op.rerunnable && !op.kept_because.empty()) rerunnable = op.kept_because;
    ops.push_back({op.name, op.signature, op.duration_ns, rerunnable, op.inputs, op.outputs});
  }
  auto& values = j["values"] = nlohmann::json::array();
  for (const TraceValue& v : trace.values) {
    nlohmann::json row = {v.producer, v.block, v.previous_epoch, v.overwritten_by, v.parameter};
    if (v.encoded_bytes > 0) {
      row.push_back(v.encoded_bytes);
      row.push_back(v.codec_ns);
    }
    values.push_back(std::move(row));
  }
  j["use_value"] = trace.use_value;
  auto& blocks = j["blocks"] = nlohmann::json::array();
  for (const TraceBlock& b : trace.blocks) blocks.push_back({b.bytes, b.before_step, b.ours});
  auto& events = j["events"] = nlohmann::json::array();
  for (const TraceEvent& e : trace.events)
    events.push_back({kindNames().at(e.kind), e.id, e.at_ns});
  writeRank(trace, j);
  for (const std::string& name : trace.nodes) j["nodes"].push_back(name);
  for (const TraceMapped& m : trace.mapped) j["mapped"].push_back({m.at_ns, m.bytes});
  // Names are the program's: what is no UTF-8 in them is replaced.
  return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Trace traceFromTree(const nlohmann::json& tree) {
  const JsonObject file(tree, "trace");
  file.expectFormat("ebbtide-trace-1");
  Trace trace;
  trace.signature = file.hash("signature");
  trace.base_bytes = file.integer("base_bytes");
  trace.duration_ns = file.integer("duration_ns");
  trace.host = {file.integerOr("host_bytes_per_second", 0), file.integerOr("host_least_bytes", 0)};
  readLists(file, trace);
  readRank(file, trace);
  readNodes(file, trace);
  readMapped(file, trace);
  checkTrace(trace);
  return trace;
}

Trace traceFromJson(const std::string& text) {
  return traceFromTree(parseJson(text, "trace"));
}

}  // namespace ebbtide::scheduler
