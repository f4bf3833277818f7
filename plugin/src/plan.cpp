#include "plan.hpp"

#include <stdexcept>
#include <utility>

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;
using scheduler::Step;

struct Cursor {
  OpId trace_op = kNone;  // last forward op run for the first time, if the last first run was one
  std::int32_t event = kNone;  // else the last backward event
  bool wait = false;           // the plan's last one came since
};

void drop(Plan& plan, const Cursor& cursor, ValueId value) {
  if (cursor.wait) {
    plan.waits.back().prelude.push_back({Step::Kind::kDrop, value});
  } else if (cursor.trace_op != kNone) {
    plan.drops_after_op[cursor.trace_op].push_back(value);
  } else if (cursor.event != kNone) {
    plan.events[cursor.event].drops.push_back(value);
  }
}

void addFetch(Plan& plan, const scheduler::TraceGraph::Restore& restore, std::int64_t ns) {
  plan.restored_later[restore.value] = true;
  ++plan.fetches_of[restore.value];
  if (restore.kind == scheduler::CopyKind::kBits) {
    ++plan.decodes;
    return;
  }
  plan.on_host[restore.value] = true;
  ++plan.host_fetches;
  plan.host_bytes += plan.codec[restore.value].block_bytes;
  plan.host_ns += ns;
}

// What replays read is needed until the event has run, before which they run at the latest.
void noteReads(Plan& plan, const scheduler::Trace& trace, const std::vector<Step>& prelude,
               std::int32_t event, std::vector<std::int32_t>& last_read) {
  for (const Step& replay : prelude) {
    if (replay.kind != Step::Kind::kRun) continue;
    for (ValueId v : trace.ops[replay.id].inputs) last_read[v] = plan.last_replay_read[v] = event;
  }
}

void addWait(Plan& plan, const Plan::Wait& place, std::vector<Step> prelude) {
  if (place.event == static_cast<std::int32_t>(plan.events.size()))
    throw std::invalid_argument("plan: a replay after the last event");
  for (const Step& step : prelude) {
    if (step.kind == Step::Kind::kRun) ++plan.replays_ahead;
  }
  plan.waits.push_back(place);
  plan.waits.back().prelude = std::move(prelude);
}

}  // namespace

std::shared_ptr<Plan> makePlan(const scheduler::Trace& trace, const scheduler::TraceGraph& graph,
                               const scheduler::Schedule& schedule) {
  auto plan = std::make_shared<Plan>();
  const auto& ops = graph.graph.ops;
  plan->signature = trace.signature;
  for (const auto& op : trace.ops) {
    plan->op_signatures.push_back(op.signature);
    plan->outputs.push_back(op.outputs.size());
  }
  for (const auto& value : trace.values) {
    plan->producer.push_back(value.producer);
    plan->previous_epoch.push_back(value.previous_epoch);
    const std::int64_t bytes = value.block == kNone ? 0 : trace.blocks[value.block].bytes;
    plan->codec.push_back({bytes, value.encoded_bytes, value.codec_ns});
  }
  plan->use_value = trace.use_value;
  plan->replayed.assign(trace.ops.size(), false);
  plan->drops_after_op.resize(trace.ops.size());
  plan->restored_later.assign(trace.values.size(), false);
  plan->fetches_of.assign(trace.values.size(), 0);
  plan->on_host.assign(trace.values.size(), false);
  plan->last_replay_read.assign(trace.values.size(), kNone);
  std::vector<std::int32_t> event_of_op(ops.size(), kNone);
  for (const auto& events : graph.events_of_use) {
    for (const OpId op : events) event_of_op[op] = 0;
  }
  for (auto& event : event_of_op) {
    if (event == kNone) continue;
    event = static_cast<std::int32_t>(plan->events.size());
    plan->events.emplace_back();
  }
  for (const auto& events : graph.events_of_use) {
    auto& of_use = plan->events_of_use.emplace_back();
    for (const OpId op : events) of_use.push_back(event_of_op[op]);
    plan->expects_kept_graphs = plan->expects_kept_graphs || events.size() > 1;
  }

  std::vector<bool> ran(ops.size(), false);
  const auto in_trace = [&trace](ValueId v) {
    return v < static_cast<ValueId>(trace.values.size());
  };
  std::vector<bool> read_again(graph.graph.values.size(), false);  // by a replay or backward event
  std::vector<std::int32_t> last_read(graph.graph.values.size(), kNone);  // the event of that
  std::vector<Step> pending;  // replays and the drops between them, until what they come before
  Plan::Wait here;            // the place that a wait has now
  Cursor cursor;
  for (const Step& step : schedule.steps) {
    if (step.kind == Step::Kind::kDrop) {
      if (!in_trace(step.id)) continue;  // a copy goes with its last fetch
      if (pending.empty()) {
        drop(*plan, cursor, step.id);
      } else {
        pending.push_back(step);
      }
      continue;
    }
    if (step.kind != Step::Kind::kRun)
      throw std::invalid_argument("plan: offload steps are not executed yet");
    const auto& op = ops.at(step.id);
    const OpId trace_op = graph.trace_op_of[step.id];
    if (const auto& restore = graph.restores[step.id]; restore.value != kNone) {
      if (ran[step.id]) {
        addFetch(*plan, restore, op.duration_ns);
        pending.push_back({Step::Kind::kFetch, restore.value});
      }
      ran[step.id] = true;  // the first time it is the value as its op made it
      continue;
    }
    if (ran[step.id]) {
      for (ValueId v : op.inputs) read_again[v] = true;
      for (ValueId v : op.outputs) plan->restored_later[v] = true;
      plan->replayed.at(trace_op) = true;
      pending.push_back({Step::Kind::kRun, trace_op});
      ++plan->replays;
      continue;
    }
    ran[step.id] = true;
    if (op.waits) {
      if (!pending.empty()) {
        addWait(*plan, here, std::exchange(pending, {}));
        noteReads(*plan, trace, plan->waits.back().prelude, here.event, last_read);
        cursor.wait = true;
      }
      ++here.before;
      plan->receives = true;
      continue;
    }
    if (trace_op != kNone) {
      if (!pending.empty()) throw std::invalid_argument("plan: a replay before a forward op");
      cursor = {trace_op, kNone};
      here.ops = trace_op + 1;
      here.before = 0;
      continue;
    }
    for (ValueId v : op.inputs) read_again[v] = true;
    if (event_of_op[step.id] == kNone) continue;  // a gap: its drops go to the event before
    cursor = {kNone, event_of_op[step.id]};
    here.event = cursor.event + 1;
    here.before = 0;
    for (ValueId v : op.inputs) last_read[v] = cursor.event;
    noteReads(*plan, trace, pending, cursor.event, last_read);
    plan->events[cursor.event].prelude = std::move(pending);
    pending.clear();
  }
  // What is the program's costs a schedule nothing, so none drops it: held here no longer than
  // read.
  for (std::size_t v = 0; v < trace.values.size(); ++v) {
    if (graph.graph.values[v].pinned && !trace.values[v].parameter && last_read[v] != kNone)
      plan->events[last_read[v]].drops.push_back(static_cast<ValueId>(v));
  }
  read_again.resize(trace.values.size());
  plan->hold = std::move(read_again);
  for (std::size_t v = 0; v < trace.values.size(); ++v) {
    const OpId producer = trace.values[v].producer;
    if (producer == kNone) continue;
    for (ValueId dropped : plan->drops_after_op[producer]) {
      // What has a copy later is copied at that drop, in a rehearsal not even then.
      if (dropped == static_cast<ValueId>(v) && plan->fetches_of[v] == 0) plan->hold[v] = false;
    }
  }
  return plan;
}

}  // namespace ebbtide::plugin
