#include "judge/time_relaxation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "judge/op_precedence.hpp"

namespace ebbtide::scheduler {
namespace {

using Column = LinearProgram::Column;
using Term = LinearProgram::Term;
constexpr double kInfinity = LinearProgram::kInfinity;
constexpr double kMostUnits = 1e6;  // as in checkmate_model.cpp

class Builder {
 public:
  Builder(const Graph& graph, Bytes budget_bytes, bool whole, TimeRelaxation& result)
      : graph_(graph),
        result_(result),
        program_(result.program),
        order_(graph),
        events_(order_.chain()),
        open_(replayPositions(graph)),
        whole_(whole),
        budget_(budget_bytes),
        from_(graph.ops.size()),
        replay_until_(graph.ops.size(), kNone),
        live_(graph.values.size()) {
    for (std::size_t op = 0; op < graph.ops.size(); ++op) {
      if (graph.ops[op].waits) open_[op] = true;  // a bound holds for schedules with replays there
    }
    setUnits();
    setIntervals();
    addColumns();
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) addFirstReads(static_cast<OpId>(id));
    for (int event = 1; event < count(); ++event) addInterval(event);
    for (int event = 0; event < count(); ++event) addEvent(event);
  }

 private:
  struct Live {  // P of one value, from event `from` to `until`
    int from = 0, until = kNone;
    int held = kNone;     // to this event the program itself holds it
    bool counted = true;  // not where its bytes become another value's
    std::vector<Column> columns;
  };

  int count() const { return static_cast<int>(events_.size()); }
  double units(Bytes bytes) const { return static_cast<double>(bytes) / bytes_; }

  void setUnits() {
    Nanoseconds time = 0;
    for (const Op& op : graph_.ops) time = std::gcd(time, op.rerunnable ? op.duration_ns : 0);
    const double total = static_cast<double>(graph_.totalDurationNs());
    double unit = static_cast<double>(std::max<Nanoseconds>(time, 1));
    result_.exact_costs = total / unit <= kMostUnits;
    if (!result_.exact_costs) unit = total / kMostUnits;
    result_.nanoseconds_per_cost = unit;
    bytes_ = std::max(1.0, static_cast<double>(budget_) / 1e5);
  }

  // The first event that is `op` or comes after it; count() if none does.
  int firstNotBefore(OpId op) const {
    int event = 0;
    while (event < count() && events_[event] != op && !order_.before(op, events_[event])) ++event;
    return event;
  }

  // The interval after the last event that comes before `op`.
  int intervalFrom(OpId op) const {
    int event = count();
    while (event > 0 && !order_.before(events_[event - 1], op)) --event;
    return event;
  }

  // From the last op back: until which event a copy, or a replay, may serve.
  void setIntervals() {
    for (std::size_t id = 0; id < live_.size(); ++id) {
      const Value& value = graph_.values[id];
      live_[id].counted = value.overwritten_by == kNone;
      if (!graph_.any_order && live_[id].counted) live_[id].held = value.last_reference;
      live_[id].until = live_[id].held;
    }
    for (std::size_t id = graph_.ops.size(); id-- > 0;) {
      const OpId op = static_cast<OpId>(id);
      from_[id] = firstNotBefore(op);
      int until = kNone;
      for (ValueId output : graph_.ops[id].outputs) {
        live_[output].from = from_[id];
        until = std::max(until, live_[output].until);
        live_[output].until = std::max(live_[output].until, from_[id]);
      }
      if (graph_.ops[id].rerunnable) replay_until_[id] = until;
      for (ValueId input : graph_.ops[id].inputs) {
        live_[input].until = std::max({live_[input].until, from_[id], replay_until_[id]});
      }
    }
  }

  void addColumns() {
    replays_.resize(graph_.ops.size());
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
      const double cost =
          static_cast<double>(graph_.ops[id].duration_ns) / result_.nanoseconds_per_cost;
      for (int event = from_[id] + 1; event <= replay_until_[id]; ++event) {
        const bool may = event == count() || open_[events_[event]];
        replays_[id].push_back(may ? program_.addColumn(cost, 0, 1, whole_) : kNone);
      }
    }
    for (std::size_t id = 0; id < live_.size(); ++id) {
      Live& live = live_[id];
      if (graph_.values[id].pinned) continue;
      for (int event = live.from; event <= std::min(live.until, count() - 1); ++event) {
        live.columns.push_back(program_.addColumn(0, event <= live.held ? 1 : 0, 1));
      }
    }
  }

  // N(event, op) as a column; kNone where it is no replay or of no use.
  Column replay(OpId op, int event) const {
    if (op == kNone || event <= from_[op] || event > replay_until_[op]) return kNone;
    return replays_[op][static_cast<std::size_t>(event - from_[op] - 1)];
  }
  Column live(ValueId value, int event) const {
    const int index = event - live_[value].from;
    const auto& columns = live_[value].columns;
    const bool there = index >= 0 && static_cast<std::size_t>(index) < columns.size();
    return there ? columns[static_cast<std::size_t>(index)] : kNone;
  }

  // What a first run reads is live during it; if it is no event, at some time between two.
  void addFirstReads(OpId op) {
    const int to = from_[op];
    const bool event = to < count() && events_[to] == op;
    const int from = intervalFrom(op);
    for (ValueId input : graph_.ops[op].inputs) {
      if (event) {
        demand(input, to);
      } else if (from > live_[input].from) {  // made before that interval
        std::vector<Term> row{{live(input, from - 1), 1}};
        for (int interval = from; interval <= to; ++interval) {
          const Column made = replay(graph_.values[input].producer, interval);
          if (made != kNone) row.push_back({made, 1});
        }
        if (row[0].column != kNone) program_.addRow(std::move(row), 1, kInfinity);
      }
    }
    if (!event || graph_.lazy_outputs) return;
    for (ValueId output : graph_.ops[op].outputs) demand(output, to);
  }

  void demand(ValueId value, int event) {
    const Column column = live(value, event);
    if (column != kNone) program_.lower[static_cast<std::size_t>(column)] = 1;
  }

  // Interval `event` ends with that event.
  void addInterval(int event) {
    through_.assign(live_.size(), kNone);
    std::vector<Term> sum;
    for (std::size_t id = 0; id < live_.size(); ++id)
      addPassage(static_cast<ValueId>(id), event, sum);
    // Bytes that live throughout.
    const Column all = program_.addColumn(0, 0, units(graph_.totalValueBytes()));
    sum.push_back({all, -1});
    program_.addRow(std::move(sum), -kInfinity, 0);
    for (std::size_t id = 0; id < graph_.ops.size(); ++id) {
      addReplay(static_cast<OpId>(id), event, all);
    }
  }

  // From one event to the next. Adds to `sum` the bytes that live throughout.
  void addPassage(ValueId value, int event, std::vector<Term>& sum) {
    const Column now = live(value, event), before = live(value, event - 1);
    if (now == kNone || before == kNone) return;
    std::vector<Term> row{{now, 1}, {before, -1}};
    const Column made = replay(graph_.values[value].producer, event);
    if (made != kNone) row.push_back({made, -1});
    program_.addRow(row, -kInfinity, 0);
    if (!live_[value].counted) return;
    const bool held = event <= live_[value].held;
    through_[value] = program_.addColumn(0, held ? 1 : 0, 1);
    sum.push_back({through_[value], units(graph_.values[value].bytes)});
    std::vector<Term> both{{now, 1}, {before, 1}, {through_[value], -1}};
    if (made != kNone) both.push_back({made, -1});
    if (!held) program_.addRow(std::move(both), -kInfinity, 1);
  }

  // A replay finds its inputs, and with what it makes fits beside what lives throughout.
  void addReplay(OpId id, int event, Column all) {
    const Column runs = replay(id, event);
    if (runs == kNone) return;
    const Op& op = graph_.ops[id];
    std::vector<Term> fits{{all, 1}};
    Bytes own = op.workspace_bytes;
    const auto takes = [&](ValueId value) {
      if (graph_.values[value].pinned || !live_[value].counted) return;
      own += graph_.values[value].bytes;
      if (through_[value] == kNone) return;
      fits.push_back({through_[value], -units(graph_.values[value].bytes)});
    };
    for (ValueId input : op.inputs) {
      takes(input);
      const Column there = live(input, event - 1);
      if (graph_.values[input].pinned || there == kNone) continue;
      std::vector<Term> row{{runs, 1}, {there, -1}};
      const Column made = replay(graph_.values[input].producer, event);
      if (made != kNone) row.push_back({made, -1});
      program_.addRow(std::move(row), -kInfinity, 0);
    }
    if (!graph_.lazy_outputs) std::for_each(op.outputs.begin(), op.outputs.end(), takes);
    fits.push_back({runs, units(own)});
    const Bytes fixed = graph_.ops[events_[event]].fixedAtStart();
    program_.addRow(std::move(fits), -kInfinity, units(budget_ - fixed));
  }

  void addEvent(int event) {
    std::vector<Term> row;
    for (std::size_t id = 0; id < live_.size(); ++id) {
      const Column column = live_[id].counted ? live(static_cast<ValueId>(id), event) : kNone;
      if (column != kNone) row.push_back({column, units(graph_.values[id].bytes)});
    }
    program_.addRow(std::move(row), -kInfinity,
                    units(budget_ - graph_.ops[events_[event]].fixed_bytes));
  }

  const Graph& graph_;
  TimeRelaxation& result_;
  LinearProgram& program_;
  OpPrecedence order_;
  const std::vector<OpId>& events_;
  std::vector<bool> open_;  // per op: may replays come right before it?
  bool whole_;
  Bytes budget_;
  double bytes_ = 1;                      // per unit of the program
  std::vector<int> from_, replay_until_;  // per op: replays come after that event, up to the other
  std::vector<Live> live_;
  std::vector<std::vector<Column>> replays_;  // per op: N
  std::vector<Column> through_;               // per value: A of the interval at hand
};

}  // namespace

TimeRelaxation::TimeRelaxation(const Graph& graph, Bytes budget_bytes, bool whole) {
  Builder(graph, budget_bytes, whole, *this);
}

Nanoseconds TimeRelaxation::timeOf(double bound) const {
  if (!(bound > 0)) return 0;
  // A sum of whole units is no less than the next whole one.
  const double cost = exact_costs ? std::ceil(bound) : bound;
  return static_cast<Nanoseconds>(cost * nanoseconds_per_cost);
}

}  // namespace ebbtide::scheduler
