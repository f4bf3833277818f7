#include "plan/plan.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;
using scheduler::Step;

class PlanBuilder {
 public:
  PlanBuilder(const scheduler::Trace& trace, const scheduler::TraceGraph& graph)
      : trace_(trace),
        graph_(graph),
        ran_(graph.graph.ops.size(), false),
        read_again_(graph.graph.values.size(), false),
        last_read_(graph.graph.values.size(), kNone),
        last_forward_read_(trace.values.size(), kNone),
        late_read_(trace.values.size(), kNone) {
    describeProgram();
    findMessages();
    addEvents();
  }

  std::shared_ptr<Plan> build(const scheduler::Schedule& schedule) {
    for (const Step& step : schedule.steps) apply(step);
    dropWhatIsTheProgramsOwn();
    findHeld();
    countDrops();
    return std::move(plan_);
  }

 private:
  struct Cursor {
    // Last forward op run for the first time, if the last first run was one,
    OpId trace_op = kNone;
    std::int32_t event = kNone;  // else the last backward event
    bool wait = false;           // the plan's last one came since
  };

  void describeProgram() {
    plan_->signature = trace_.signature;
    for (const auto& op : trace_.ops) {
      plan_->ops.signatures.push_back(op.signature);
      plan_->ops.outputs.push_back(op.outputs.size());
      plan_->ops.rerunnable.push_back(op.rerunnable);
      plan_->ops.written_unseen.push_back(op.kept_because == kWrittenUnseen);
    }
    for (const auto& value : trace_.values) {
      plan_->values.producer.push_back(value.producer);
      plan_->values.previous_epoch.push_back(value.previous_epoch);
      const std::int64_t bytes = value.block == kNone ? 0 : trace_.blocks[value.block].bytes;
      plan_->values.codec.push_back({bytes, value.encoded_bytes, value.codec_ns});
    }
    for (std::size_t op = 0; op < trace_.ops.size(); ++op) {
      for (const ValueId v : trace_.ops[op].inputs) last_forward_read_[v] = static_cast<OpId>(op);
    }
    for (std::size_t v = 0; v < trace_.values.size(); ++v)
      plan_->values.saved_longer.push_back(graph_.graph.values[v].saved_last != kNone);
    plan_->uses.value = trace_.use_value;
    plan_->ops.replayed.assign(trace_.ops.size(), false);
    plan_->ops.replayed_name.resize(trace_.ops.size());
    plan_->ops.drops_after.resize(trace_.ops.size());
    plan_->values.restored_later.assign(trace_.values.size(), false);
    plan_->values.fetches.assign(trace_.values.size(), 0);
    plan_->values.on_host.assign(trace_.values.size(), false);
    plan_->values.last_replay_read.assign(trace_.values.size(), kNone);
  }

  // Messages are in a row where the program runs nothing else in between.
  void findMessages() {
    using Kind = scheduler::TraceEvent::Kind;
    Plan::Wait place;
    std::vector<std::size_t> row;  // its receives
    for (const scheduler::TraceEvent& event : trace_.events) {
      if (event.kind == Kind::kMessage) {
        if (trace_.messages.at(event.id).receive) {
          row.push_back(asked_.size());
          asked_.emplace_back();
        }
        for (const std::size_t receive : row) asked_[receive] = place;
        ++place.before;
      } else if (event.kind == Kind::kOpBegin) {
        if (!isMessageOp(trace_.ops[event.id].name)) row.clear();
        place.ops = event.id + 1;
        place.before = 0;
      } else if (event.kind == Kind::kBackwardNode || event.kind == Kind::kUnpack) {
        row.clear();
        if (event.kind == Kind::kUnpack) place.before = 0;
      }
    }
  }

  // Under gradients the recorder takes the call for one of the program's ops.
  static bool isMessageOp(std::string_view name) {
    return name == "c10d::send" || name == "c10d::recv_" || name == "c10d::recv_any_source_";
  }

  void addEvents() {
    event_of_op_.assign(graph_.graph.ops.size(), kNone);
    for (const auto& events : graph_.events_of_use) {
      for (const OpId op : events) event_of_op_[op] = 0;
    }
    for (auto& event : event_of_op_) {
      if (event == kNone) continue;
      event = static_cast<std::int32_t>(plan_->events.size());
      plan_->events.emplace_back();
    }
    for (const auto& events : graph_.events_of_use) {
      auto& of_use = plan_->uses.events.emplace_back();
      for (const OpId op : events) of_use.push_back(event_of_op_[op]);
      plan_->expects_kept_graphs = plan_->expects_kept_graphs || events.size() > 1;
    }
  }

  void apply(const Step& step) {
    if (step.kind == Step::Kind::kDrop) return drop(step);
    if (step.kind != Step::Kind::kRun)
      throw std::invalid_argument("plan: offload steps are not executed yet");
    const auto& op = graph_.graph.ops.at(step.id);
    const bool again = ran_[step.id];
    ran_[step.id] = true;
    const auto& restore = graph_.restores[step.id];
    if (restore.value != kNone) {  // the first time it is the value as its op made it
      if (again) fetch(restore, op.duration_ns);
    } else if (again) {
      replay(step.id);
    } else if (op.waits) {
      passWait();
    } else if (graph_.trace_op_of[step.id] != kNone) {
      passForward(graph_.trace_op_of[step.id]);
    } else {
      passBackward(step.id);
    }
  }

  void drop(const Step& step) {
    const ValueId value = step.id;
    if (value >= static_cast<ValueId>(trace_.values.size())) return;  // with its last fetch
    if (!pending_.empty()) {
      pending_.push_back(step);
    } else if (cursor_.wait) {
      plan_->waits.back().prelude.push_back(step);
    } else if (cursor_.trace_op != kNone) {
      if (late_read_[value] == next_event_) {  // by a replay that may come as late as the event
        pending_.push_back(step);
        return;
      }
      plan_->ops.drops_after[opBeforeDrop(value)].push_back(value);
    } else if (cursor_.event != kNone) {
      plan_->events[cursor_.event].drops.push_back(value);
    }
  }

  // What no op gives again may be written unseen until the program reads it last: its copy is made
  // after that. The program holds it so long anyway.
  OpId opBeforeDrop(ValueId value) const {
    const OpId producer = trace_.values[value].producer;
    const bool at_birth = producer == cursor_.trace_op;
    if (!at_birth || trace_.ops[producer].rerunnable) return cursor_.trace_op;
    return std::max(producer, last_forward_read_[value]);
  }

  void fetch(const scheduler::TraceGraph::Restore& restore, std::int64_t ns) {
    pending_.push_back({Step::Kind::kFetch, restore.value});
    plan_->values.restored_later[restore.value] = true;
    ++plan_->values.fetches[restore.value];
    if (restore.kind == scheduler::CopyKind::kBits) {
      ++plan_->predicted.decodes;
      return;
    }
    plan_->values.on_host[restore.value] = true;
    ++plan_->predicted.host_fetches;
    plan_->predicted.host_bytes += plan_->values.codec[restore.value].block_bytes;
    plan_->predicted.host_ns += ns;
  }

  void replay(OpId id) {
    const auto& op = graph_.graph.ops[id];
    const OpId trace_op = graph_.trace_op_of[id];
    for (ValueId v : op.inputs) read_again_[v] = true;
    for (ValueId v : op.outputs) plan_->values.restored_later[v] = true;
    plan_->ops.replayed.at(trace_op) = true;
    plan_->ops.replayed_name.at(trace_op) = trace_.ops[trace_op].name;
    pending_.push_back({Step::Kind::kRun, trace_op});
    ++plan_->predicted.replays;
  }

  void passWait() {
    if (!pending_.empty()) {
      if (next_event_ == static_cast<std::int32_t>(plan_->events.size()))
        throw std::invalid_argument("plan: a replay after the last event");
      noteReads(next_event_);
      for (const Step& step : pending_) {
        if (step.kind == Step::Kind::kFetch) late_read_[step.id] = next_event_;
        if (step.kind != Step::Kind::kRun) continue;
        ++plan_->predicted.replays_ahead;
        for (ValueId v : trace_.ops[step.id].inputs) late_read_[v] = next_event_;
      }
      const Plan::Wait& place = asked_.at(receives_);
      plan_->waits.push_back({place.ops, next_event_, place.before, std::exchange(pending_, {})});
      cursor_.wait = true;
    }
    ++receives_;
    plan_->receives = true;
  }

  void passForward(OpId trace_op) {
    if (!pending_.empty())
      throw std::invalid_argument(
          "plan: a replay, or a drop that it needs late, before a forward op");
    cursor_ = {trace_op, kNone};
  }

  void passBackward(OpId id) {
    const auto& inputs = graph_.graph.ops[id].inputs;
    for (ValueId v : inputs) read_again_[v] = true;
    const std::int32_t event = event_of_op_[id];
    if (event == kNone) return;  // a gap: its drops go to the event before
    cursor_ = {kNone, event};
    next_event_ = event + 1;
    for (ValueId v : inputs) last_read_[v] = event;
    noteReads(event);
    plan_->events[event].prelude = std::exchange(pending_, {});
  }

  // What replays read is needed until the event has run, before which they run at the latest.
  void noteReads(std::int32_t event) {
    for (const Step& step : pending_) {
      if (step.kind != Step::Kind::kRun) continue;
      for (ValueId v : trace_.ops[step.id].inputs)
        last_read_[v] = plan_->values.last_replay_read[v] = event;
    }
  }

  // What is the program's costs a schedule nothing, so none drops it: held here no longer than
  // read.
  void dropWhatIsTheProgramsOwn() {
    for (std::size_t v = 0; v < trace_.values.size(); ++v) {
      if (graph_.graph.values[v].pinned && !trace_.values[v].parameter && last_read_[v] != kNone)
        plan_->events[last_read_[v]].drops.push_back(static_cast<ValueId>(v));
    }
  }

  void findHeld() {
    read_again_.resize(trace_.values.size());
    plan_->values.hold = std::move(read_again_);
    for (std::size_t v = 0; v < trace_.values.size(); ++v) {
      const OpId producer = trace_.values[v].producer;
      if (producer == kNone) continue;
      for (ValueId dropped : plan_->ops.drops_after[producer]) {
        // What has a copy later is copied at that drop, in a verification step not even then.
        if (dropped == static_cast<ValueId>(v) && plan_->values.fetches[v] == 0)
          plan_->values.hold[v] = false;
      }
    }
  }

  void countDrops() {
    const auto count = [this](ValueId v) {
      if (plan_->values.restored_later[v])
        plan_->predicted.drop_bytes += plan_->values.codec[v].block_bytes;
    };
    const auto countPrelude = [&count](const std::vector<Step>& prelude) {
      for (const Step& step : prelude) {
        if (step.kind == Step::Kind::kDrop) count(step.id);
      }
    };
    for (const auto& drops : plan_->ops.drops_after)
      std::for_each(drops.begin(), drops.end(), count);
    for (const Plan::Wait& wait : plan_->waits) countPrelude(wait.prelude);
    for (const Plan::Event& event : plan_->events) {
      countPrelude(event.prelude);
      std::for_each(event.drops.begin(), event.drops.end(), count);
    }
  }

  const scheduler::Trace& trace_;
  const scheduler::TraceGraph& graph_;
  std::shared_ptr<Plan> plan_ = std::make_shared<Plan>();
  std::vector<std::int32_t> event_of_op_;
  std::vector<bool> ran_;
  std::vector<bool> read_again_;         // per value: by a replay or backward event
  std::vector<std::int32_t> last_read_;  // per value: the event of that
  std::vector<OpId> last_forward_read_;  // per value: by an op
  std::vector<std::int32_t> late_read_;  // per value: that of a wait's prelude that reads it
  std::vector<Step> pending_;  // replays and the drops between them, until what they come before
  std::vector<Plan::Wait> asked_;  // per receive: where the last message of its row is asked for
  std::size_t receives_ = 0;       // so far
  std::int32_t next_event_ = 0;
  Cursor cursor_;
};

}  // namespace

std::shared_ptr<Plan> makePlan(const scheduler::Trace& trace, const scheduler::TraceGraph& graph,
                               const scheduler::Schedule& schedule) {
  return PlanBuilder(trace, graph).build(schedule);
}

bool Plan::doesAs(const Plan& other) const noexcept {
  return ops.signatures == other.ops.signatures && ops.replayed == other.ops.replayed &&
         values.hold == other.values.hold && ops.drops_after == other.ops.drops_after &&
         events == other.events && waits == other.waits && values.on_host == other.values.on_host &&
         values.fetches == other.values.fetches;
}

}  // namespace ebbtide::plugin
