#include "planners/staged/checkmate_model.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Term = LinearProgram::Term;
constexpr double kInfinity = LinearProgram::kInfinity;

// Solvers compare sums to within 1e-6: sizes and times stay whole numbers if these are not larger.
constexpr double kMostUnits = 1e6;

double unitFor(std::int64_t divisor, double most) {
  const double whole = static_cast<double>(std::max<std::int64_t>(divisor, 1));
  return most / whole <= kMostUnits ? whole : most / kMostUnits;
}

}  // namespace

CheckmateModel::CheckmateModel(const Graph& graph, const StagedRuns& runs, Bytes budget_bytes,
                               Goal goal, bool whole)
    : graph_(graph), runs_(runs), goal_(goal), whole_(whole), values_(graph.values.size()) {
  setUnits(budget_bytes);
  if (goal == Goal::kPeak) peak_ = program_.addColumn(1, 0, kInfinity);
  for (std::size_t id = 0; id < values_.size(); ++id) {
    const ValueId value = static_cast<ValueId>(id);
    if (graph.values[id].pinned) continue;
    values_[id].first_stage = graph.values[id].producer + 1;
    if (graph.values[id].producer != kNone) continue;
    if (std::max(runs.neededUntil(value), runs.heldUntil(value)) == kNone) continue;
    const double least = runs.heldUntil(value) >= 0 ? 1 : 0;
    values_[id].retained.push_back(program_.addColumn(0, least, 1));
    pending_.push_back({values_[id].retained[0], -units(graph.values[id].bytes)});
  }
  for (std::size_t id = 0; id < graph.ops.size(); ++id) addStage(static_cast<OpId>(id));
}

void CheckmateModel::setUnits(Bytes budget_bytes) {
  std::int64_t bytes = 0, time = 0;
  for (const Value& value : graph_.values) bytes = std::gcd(bytes, value.pinned ? 0 : value.bytes);
  for (const Op& op : graph_.ops) {
    for (const Bytes one : {op.fixed_bytes, op.fixedAtStart(), op.workspace_bytes}) {
      bytes = std::gcd(bytes, one);
    }
    if (op.rerunnable) time = std::gcd(time, op.duration_ns);
  }
  const Bytes most = goal_ == Goal::kTime ? budget_bytes : graph_.totalValueBytes();
  bytes_ = unitFor(bytes, static_cast<double>(most));
  nanoseconds_ = unitFor(time, static_cast<double>(graph_.totalDurationNs()));
  budget_ = units(budget_bytes);
  if (bytes_ == static_cast<double>(bytes)) budget_ = std::floor(budget_);
}

std::size_t CheckmateModel::size(const Graph& graph, const StagedRuns& runs) {
  std::size_t size = 0;
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const ValueId value = static_cast<ValueId>(id);
    const OpId from = std::max(graph.values[id].producer, 0);
    const OpId until = std::max(runs.neededUntil(value), runs.heldUntil(value));
    if (graph.values[id].pinned || until < from) continue;
    const auto stages = static_cast<std::size_t>(until - from) + 1;
    // R, S and U with their terms; for each reader F, and the drops before it in its row.
    const std::size_t readers = runs.readers(value).size();
    size += stages * (8 + 3 * readers + readers * readers / 2);
  }
  return size;
}

void CheckmateModel::addStage(OpId id) {
  Stage stage;
  stage.id = id;
  addRuns(stage);
  for (std::size_t value = 0; value < values_.size(); ++value) {
    const Value& one = graph_.values[value];
    if (!one.pinned && one.producer <= id) addValue(stage, static_cast<ValueId>(value));
  }
  addMemory(stage);
}

void CheckmateModel::addRuns(Stage& stage) {
  const auto places = static_cast<std::size_t>(stage.id) + 1;
  stage.run.assign(places, kNone);
  stage.early.resize(places);
  stage.late.resize(places);
  for (OpId op = 0; op < stage.id; ++op) {
    if (!runs_.may(stage.id, op)) continue;
    const double cost = static_cast<double>(graph_.ops[op].duration_ns) / nanoseconds_;
    stage.run[op] = program_.addColumn(goal_ == Goal::kTime ? cost : 0, 0, 1, whole_);
    replay_columns_.emplace_back(RunKey(stage.id, op), stage.run[op]);
  }
  stage.run[stage.id] = kOne;
}

// Where its copy may be dropped in the stage: after the runs that read it, after its birth where it
// may not be read at all, and where the program lets go of it.
std::vector<OpId> CheckmateModel::places(const Stage& stage, ValueId value) const {
  const Value& one = graph_.values[value];
  if (stage.id < runs_.heldUntil(value)) return {};
  if (stage.id == runs_.heldUntil(value)) return {stage.id};
  std::vector<OpId> places;
  if (one.producer != kNone && stage.run[one.producer] != kNone) {
    const bool alone = graph_.ops[one.producer].outputs.size() == 1 && !graph_.lazy_outputs;
    if (stage.id == one.producer || !alone) places.push_back(one.producer);
  }
  for (OpId reader : runs_.readers(value)) {
    if (reader <= stage.id && stage.run[reader] != kNone) places.push_back(reader);
  }
  if (one.overwritten_by == stage.id && (places.empty() || places.back() != stage.id)) {
    places.push_back(stage.id);
  }
  return places;
}

void CheckmateModel::addValue(Stage& stage, ValueId value) {
  const OpId producer = graph_.values[value].producer;
  const std::vector<Column>& retained = values_[value].retained;
  const bool born = producer == stage.id;
  const auto entering = static_cast<std::size_t>(stage.id - values_[value].first_stage);
  if (!born && entering >= retained.size()) return;
  std::vector<Term> flow;
  if (!born) flow.push_back({retained[entering], 1});
  const Column replay = born || producer == kNone ? kNone : stage.run[producer];
  if (replay != kNone) {
    flow.push_back({replay, 1});
    program_.addRow(flow, -kInfinity, 1);  // no replay of what is there
  }
  addDrops(stage, value, flow, born ? 1 : 0);
  addLeaving(stage, value, std::move(flow), born ? 1 : 0);
}

// Takes each drop out of `flow`, to which `made` adds, after the runs before it found their copy.
void CheckmateModel::addDrops(Stage& stage, ValueId value, std::vector<Term>& flow, double made) {
  const OpId producer = graph_.values[value].producer;
  const double bytes = units(graph_.values[value].bytes);
  for (OpId place : places(stage, value)) {
    if (place != producer && stage.id > runs_.heldUntil(value)) {
      std::vector<Term> row = flow;
      const bool first = stage.run[place] == kOne;
      if (!first) row.push_back({stage.run[place], -1});
      const bool reads =
          std::count(graph_.ops[place].inputs.begin(), graph_.ops[place].inputs.end(), value) > 0;
      if (reads) program_.addRow(std::move(row), (first ? 1 : 0) - made, kInfinity);
    }
    const Column drop = program_.addColumn(0, 0, 1);
    const RunKey key(stage.id, place);
    values_[value].drops.push_back({key, drop});
    (freesEarly(value, key) ? stage.early : stage.late)[place].push_back({drop, bytes});
    flow.push_back({drop, -1});
  }
}

// Is a copy that is dropped there gone while the run lasts? One whose bytes an output takes over,
// and a lazy output that nothing reads.
bool CheckmateModel::freesEarly(ValueId value, RunKey place) const {
  if (graph_.values[value].producer == place.op()) return graph_.lazy_outputs;
  const auto& outputs = graph_.ops[place.op()].outputs;
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](ValueId output) { return graph_.values[output].previous_epoch == value; });
}

// What is not dropped is retained into the next stage.
void CheckmateModel::addLeaving(const Stage& stage, ValueId value, std::vector<Term> flow,
                                double made) {
  const OpId held = runs_.heldUntil(value);
  if (stage.id >= std::max(runs_.neededUntil(value), held)) {
    program_.addRow(std::move(flow), -made, kInfinity);
    return;
  }
  auto& retained = values_[value].retained;
  if (flow.size() == 1 && made == 0) {  // neither made nor dropped
    retained.push_back(flow[0].column);
    return;
  }
  const bool ended = graph_.values[value].overwritten_by == stage.id;
  const Column leaving = program_.addColumn(0, stage.id < held ? 1 : 0, ended ? 0 : 1);
  retained.push_back(leaving);
  flow.push_back({leaving, -1});
  program_.addRow(std::move(flow), -made, -made);
}

// U of each run in the stage: U before, births, what was dropped between and is taken over.
void CheckmateModel::addMemory(const Stage& stage) {
  for (std::size_t op = 0; op < stage.run.size(); ++op) {
    if (stage.run[op] == kNone) continue;
    const Column live = program_.addColumn(0, 0, kInfinity);
    std::vector<Term> row = std::move(pending_);
    double born = 0;
    for (ValueId output : graph_.ops[op].outputs) {
      if (!graph_.values[output].pinned) born += units(graph_.values[output].bytes);
    }
    const bool first = stage.run[op] == kOne;
    if (!first) row.push_back({stage.run[op], -born});
    row.insert(row.end(), stage.early[op].begin(), stage.early[op].end());
    row.push_back({live, 1});
    live_.emplace_back(live, program_.rows());
    program_.addRow(std::move(row), first ? born : 0, first ? born : 0);
    pending_ = {{live, -1}};
    pending_.insert(pending_.end(), stage.late[op].begin(), stage.late[op].end());
    addLimit(RunKey(stage.id, static_cast<OpId>(op)), live, stage.run[op]);
  }
}

void CheckmateModel::addLimit(RunKey run, Column live, Column runs) {
  const Op& next = graph_.ops[run.stage()];
  const double fixed = units(run.first() ? next.fixed_bytes : next.fixedAtStart());
  const double workspace = run.first() ? 0 : units(graph_.ops[run.op()].workspace_bytes);
  if (goal_ == Goal::kTime && workspace == 0) {
    program_.upper[static_cast<std::size_t>(live)] = budget_ - fixed;
    return;
  }
  std::vector<Term> row{{live, 1}};
  if (workspace != 0) row.push_back({runs, workspace});
  if (goal_ == Goal::kPeak) row.push_back({peak_, -1});
  program_.addRow(std::move(row), -kInfinity, (goal_ == Goal::kTime ? budget_ : 0) - fixed);
}

}  // namespace ebbtide::scheduler
