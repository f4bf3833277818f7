#include "planners/staged/moccasin_model.hpp"

#include <algorithm>
#include <limits>

#include "model/run_sequence.hpp"

namespace ebbtide::scheduler {
namespace {

bool isConstant(const CpExpression& expression) {
  return expression.terms.empty();
}

}  // namespace

MoccasinModel::MoccasinModel(const Graph& graph, const MoccasinSettings& settings,
                             const MoccasinGoal& goal)
    : graph_(graph),
      settings_(settings),
      limits_(graph),
      always_(model_.addVariable(1, 1)),
      runs_(graph.ops.size()),
      copies_(graph.values.size()),
      readers_(graph.values.size()) {
  for (std::size_t id = 0; id < graph.ops.size(); ++id) addRuns(static_cast<OpId>(id));
  for (std::size_t id = 0; id < graph.values.size(); ++id) addCopies(static_cast<ValueId>(id));
  for (std::size_t id = 0; id < graph.ops.size(); ++id) {
    const auto op = static_cast<OpId>(id);
    for (const ValueId input : graph.ops[id].inputs) {
      if (!managed(input)) continue;
      readers_[input].push_back(op);
      if (settings_.reservoir) continue;
      for (std::size_t run = 0; run < runs_[id].size(); ++run) {
        if (needsCopy(op, run, input)) addClauses(input, op, run);
      }
    }
  }
  if (settings_.reservoir) {
    for (std::size_t id = 0; id < graph.values.size(); ++id) addReservoir(static_cast<ValueId>(id));
  }
  if (!settings_.free_order) addFixedBytes();
  setGoal(goal);
}

// Graph inputs are made at event 0. Each stage has an event for every op, though only those up to
// its own can be of use: then a start is a multiple of its stage, which the solver takes better
// than the sparse domain of section 2.3.
std::int64_t MoccasinModel::eventOf(OpId stage, OpId op) const {
  return std::int64_t{stage} * static_cast<std::int64_t>(graph_.ops.size()) + op + 1;
}

std::int64_t MoccasinModel::lastEvent() const {
  const auto ops = static_cast<OpId>(graph_.ops.size());
  return settings_.free_order ? std::int64_t{ops} * settings_.intervals : eventOf(ops - 1, ops - 1);
}

// The first run of a forward op reads what the program itself still holds.
bool MoccasinModel::needsCopy(OpId op, std::size_t run, ValueId input) const {
  return managed(input) && !(run == 0 && graph_.programServes(op, input));
}

void MoccasinModel::addRuns(OpId op) {
  const auto ops = static_cast<OpId>(graph_.ops.size());
  std::vector<std::int64_t> stages;  // that may replay it
  for (OpId stage = op + 1; stage <= limits_.lastStage(op); ++stage) {
    if (limits_.allowed(RunKey(stage, op))) stages.push_back(stage);
  }
  const auto anywhere = [&] { return CpExpression::variable(model_.addVariable(1, lastEvent())); };
  const auto inSomeStage = [&] {
    return CpExpression{{{model_.addVariable(stages), ops}}, eventOf(0, op)};
  };
  const bool free = settings_.free_order;
  runs_[op].push_back({free ? anywhere() : CpExpression::constant(eventOf(op, op)), always_});
  const bool again = graph_.ops[op].rerunnable && (free || !stages.empty());
  for (int i = 1; again && i < settings_.intervals; ++i) {
    const CpExpression start = free ? anywhere() : inSomeStage();
    runs_[op].push_back({start, model_.addLiteral()});
    const Bytes workspace = graph_.ops[op].workspace_bytes;
    if (workspace == 0) continue;
    CpExpression after = start;
    ++after.offset;
    demand(model_.addInterval(start, CpExpression::constant(1), after, {runs_[op].back().active}),
           workspace);
  }
  orderRuns(op);
}

// Equation (3) for the runs themselves; those that are not active are the last ones.
void MoccasinModel::orderRuns(OpId op) {
  const std::vector<Run>& runs = runs_[op];
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (i > 1) model_.addOr({runs[i - 1].active}, {runs[i].active});
    if (i > 1 || settings_.free_order) {
      addAtMost(runs[i - 1].start, runs[i].start, 1, {runs[i].active});
    }
  }
}

// less + gap <= more
void MoccasinModel::addAtMost(const CpExpression& less, const CpExpression& more, std::int64_t gap,
                              const std::vector<CpLiteral>& enforced) {
  CpExpression difference = more;
  for (const auto& [variable, coefficient] : less.terms) {
    difference.terms.emplace_back(variable, -coefficient);
  }
  model_.addLinear(difference, gap + less.offset - more.offset,
                   std::numeric_limits<std::int64_t>::max() / 2, enforced);
}

void MoccasinModel::demand(CpInterval interval, Bytes bytes) {
  intervals_.push_back(interval);
  demands_.push_back(bytes);
}

// Does the first run of its producer make it in bytes that are live then: of an input, or of what
// the program itself holds?
bool MoccasinModel::takesOver(ValueId value) const {
  const ValueId previous = graph_.values[value].previous_epoch;
  if (previous == kNone || !managed(previous)) return false;
  const OpId producer = graph_.values[value].producer;
  const auto& inputs = graph_.ops[producer].inputs;
  return graph_.values[previous].last_reference >= producer ||
         std::find(inputs.begin(), inputs.end(), previous) != inputs.end();
}

void MoccasinModel::addCopies(ValueId value) {
  if (!managed(value)) return;
  const OpId producer = graph_.values[value].producer;
  const std::size_t count = producer == kNone ? 1 : runs_[producer].size();
  for (std::size_t run = 0; run < count; ++run) addCopy(value, run);
  // Equation (3). A replay for the sake of another output may find this one there.
  if (producer == kNone || graph_.ops[producer].outputs.size() > 1) return;
  for (std::size_t run = 1; run < count; ++run) {
    const Run& next = runs_[producer][run];
    addAtMost(CpExpression::variable(copies_[value][run - 1].end), next.start, 1, {next.active});
  }
}

void MoccasinModel::addCopy(ValueId value, std::size_t run) {
  const Value& v = graph_.values[value];
  const Run maker =
      v.producer == kNone ? Run{CpExpression::constant(0), always_} : runs_[v.producer][run];
  std::int64_t least = 0, most = lastEvent();
  if (run == 0 && v.overwritten_by != kNone) most = eventOf(v.overwritten_by, v.overwritten_by);
  if (run == 0 && v.last_reference != kNone) {
    least = std::min(most, eventOf(v.last_reference, v.last_reference));
  }
  if (isConstant(maker.start)) least = std::max(least, maker.start.offset);
  Copy copy;
  copy.end = model_.addVariable(least, std::max(least, most));
  const CpExpression after = CpExpression::variable(copy.end, 1);
  if (isConstant(maker.start)) {
    const std::int64_t from = maker.start.offset + (run == 0 && takesOver(value) ? 1 : 0);
    const CpExpression size = CpExpression::variable(copy.end, 1 - from);
    if (v.bytes > 0) {
      demand(model_.addInterval(CpExpression::constant(from), size, after), v.bytes);
    }
  } else {
    copy.size = model_.addVariable(1, lastEvent());
    CpExpression sum = maker.start;
    sum.terms.insert(sum.terms.end(), {{*copy.size, 1}, {copy.end, -1}});
    model_.addLinear(sum, 1 - maker.start.offset, 1 - maker.start.offset, {maker.active});
    const CpExpression size = CpExpression::variable(*copy.size);
    if (v.bytes > 0) {
      demand(model_.addInterval(maker.start, size, after, {maker.active}), v.bytes);
    }
  }
  copies_[value].push_back(copy);
}

// Equation (5): some copy begins before the run and has not ended.
void MoccasinModel::addClauses(ValueId value, OpId reader, std::size_t run) {
  const CpLiteral active = runs_[reader][run].active;
  if (copies_[value].size() == 1) return serve({active, value, 0, reader, run}, active);
  std::vector<CpLiteral> any;
  for (std::size_t copy = 0; copy < copies_[value].size(); ++copy) {
    serves_.push_back({model_.addLiteral(), value, copy, reader, run});
    serve(serves_.back(), serves_.back().literal);
    any.push_back(serves_.back().literal);
  }
  model_.addOr(any, {active});
}

void MoccasinModel::serve(const Serve& served, CpLiteral literal) {
  const OpId producer = graph_.values[served.value].producer;
  const CpExpression& start = runs_[served.op][served.run].start;
  const CpVariable end = copies_[served.value][served.copy].end;
  addAtMost(start, CpExpression::variable(end), 0, {literal});
  if (producer == kNone) return;
  const Run& maker = runs_[producer][served.copy];
  if (served.copy > 0) model_.addOr({maker.active}, {literal});
  // In the input order a first run comes before all that may read it.
  if (served.copy > 0 || settings_.free_order) addAtMost(maker.start, start, 1, {literal});
}

// Equation (10). Since one op runs at a time, one reservoir serves all readers of a value: its
// copies fill it, and each of them takes one for the event of its run.
void MoccasinModel::addReservoir(ValueId value) {
  if (readers_[value].empty()) return;
  const OpId producer = graph_.values[value].producer;
  std::vector<CpSatModel::LevelChange> changes;
  for (std::size_t copy = 0; copy < copies_[value].size(); ++copy) {
    const Run maker =
        producer == kNone ? Run{CpExpression::constant(0), always_} : runs_[producer][copy];
    changes.push_back({maker.start, 1, maker.active});
    changes.push_back({CpExpression::variable(copies_[value][copy].end, 1), -1, maker.active});
  }
  for (const OpId reader : readers_[value]) {
    for (std::size_t run = 0; run < runs_[reader].size(); ++run) {
      if (!needsCopy(reader, run, value)) continue;
      const Run& taker = runs_[reader][run];
      CpExpression after = taker.start;
      ++after.offset;
      changes.push_back({taker.start, -1, taker.active});
      changes.push_back({after, 1, taker.active});
    }
  }
  model_.addReservoir(changes, 0);
}

// What is live whatever the schedule does: when the stage begins, and while its op runs.
void MoccasinModel::addFixedBytes() {
  const auto constant = [](std::int64_t value) { return CpExpression::constant(value); };
  for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
    const Op& op = graph_.ops[id];
    const auto stage = static_cast<OpId>(id);
    const std::int64_t begin = eventOf(stage, 0), first = eventOf(stage, stage);
    const Bytes at_start = op.fixedAtStart();
    if (at_start > 0 && begin < first) {
      demand(model_.addInterval(constant(begin), constant(first - begin), constant(first)),
             at_start);
    }
    if (op.fixed_bytes > 0) {
      demand(model_.addInterval(constant(first), constant(1), constant(first + 1)), op.fixed_bytes);
    }
  }
}

void MoccasinModel::setGoal(const MoccasinGoal& goal) {
  CpExpression replays;
  Nanoseconds most = 0;
  std::vector<CpInterval> events;  // equation (6)
  for (std::size_t op = 0; op < runs_.size(); ++op) {
    for (std::size_t i = 0; i < runs_[op].size(); ++i) {
      const Run& run = runs_[op][i];
      if (settings_.free_order) {
        CpExpression after = run.start;
        ++after.offset;
        events.push_back(
            model_.addInterval(run.start, CpExpression::constant(1), after, {run.active}));
      }
      if (i == 0 || graph_.ops[op].duration_ns == 0) continue;
      replays.terms.emplace_back(run.active, graph_.ops[op].duration_ns);
      most += graph_.ops[op].duration_ns;
    }
  }
  if (!events.empty()) model_.addNoOverlap(events);
  if (goal.most_replay_ns < most) model_.addLinear(replays, 0, goal.most_replay_ns);
  CpExpression capacity = CpExpression::constant(goal.most_bytes);
  if (goal.least_bytes < goal.most_bytes) {
    peak_ = model_.addVariable(goal.least_bytes, goal.most_bytes);
    capacity = CpExpression::variable(*peak_);
  }
  model_.addCumulative(intervals_, demands_, capacity);
  model_.minimize(peak_ ? capacity : replays);
}

}  // namespace ebbtide::scheduler
