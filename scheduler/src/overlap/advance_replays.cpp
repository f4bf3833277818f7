// A stretch reaches from an op that waits to the next one. A step of it may come before the wait if
// it commutes with all that stay between: it reads nothing that they write, and writes nothing that
// they read or write, where a run writes its outputs and what it overwrites, and a drop its value.
//
//   wait | drop a  replay b  replay c  event | drop b  replay d  event | ...
//    ^              moved     moved      stays          moved?
//
// Levels: of each op up to which steps have been looked at, the simulated bytes and what the moved
// replays add. All that is added or saved reaches from the wait to the op at hand, so that the
// largest of these levels is one number. Bytes are counted too high where it is simpler: results
// that nothing reads are held, and what a replay writes in place counts beside what it writes over.
#include "ebbtide/scheduler/advance_replays.hpp"

#include <algorithm>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"

namespace ebbtide::scheduler {
namespace {

class Advancer {
 public:
  Advancer(const Graph& graph, const Schedule& schedule, Bytes cap)
      : graph_(graph),
        steps_(schedule.steps),
        cap_(cap),
        levels_(simulate(graph, schedule)),
        overwritten_at_(graph.ops.size()),
        held_(graph.values.size(), false),
        read_(graph.values.size(), kNone),
        written_(graph.values.size(), kNone),
        touched_(graph.values.size(), kNone),
        made_(graph.values.size(), kNone) {
    for (std::size_t id = 0; id < graph.values.size(); ++id) {
      const Value& value = graph.values[id];
      held_[id] = value.producer == kNone;
      if (value.overwritten_by != kNone) {
        overwritten_at_[value.overwritten_by].push_back(static_cast<ValueId>(id));
      }
    }
    result_.schedule.steps.reserve(steps_.size());
  }

  AdvancedReplays advance() {
    std::size_t begin = 0;
    for (OpId op = 0; op < static_cast<OpId>(graph_.ops.size()); ++op) {
      std::size_t run = begin;
      while (!isFirstRun(steps_[run], op)) ++run;
      if (graph_.ops[op].waits) {
        flush();
        beginStretch(op, begin, run);
      } else {
        passOp(op, begin, run);
      }
      begin = run + 1;
    }
    flush();
    append(begin, steps_.size());
    return std::move(result_);
  }

 private:
  // In program order, and ops before `next` have run.
  static bool isFirstRun(const Step& step, OpId next) {
    return step.kind == Step::Kind::kRun && step.id == next;
  }
  Bytes bytes(ValueId id) const { return graph_.values[id].pinned ? 0 : graph_.values[id].bytes; }

  void append(std::size_t begin, std::size_t end) {
    auto& steps = result_.schedule.steps;
    steps.insert(steps.end(), steps_.begin() + static_cast<std::ptrdiff_t>(begin),
                 steps_.begin() + static_cast<std::ptrdiff_t>(end));
  }

  void flush() {
    auto& steps = result_.schedule.steps;
    steps.insert(steps.end(), moved_.begin(), moved_.end());
    steps.insert(steps.end(), stay_.begin(), stay_.end());
    moved_.clear();
    stay_.clear();
  }

  void beginStretch(OpId wait, std::size_t begin, std::size_t run) {
    for (std::size_t i = begin; i < run; ++i) follow(steps_[i], false);
    append(begin, run);
    wait_ = wait;
    level_ = levels_.live_bytes[wait];
    live_ = levels_.run_bytes[wait] - graph_.ops[wait].fixed_bytes;
    keep(steps_[run], true);
  }

  // The steps before its first run, and that.
  void passOp(OpId op, std::size_t begin, std::size_t run) {
    if (wait_ == kNone) {
      for (std::size_t i = begin; i <= run; ++i) follow(steps_[i], i == run);
      append(begin, run + 1);
      return;
    }
    if (graph_.mayReplayBefore(op)) begin = move(begin, run);
    bool replays = false;  // that stay
    for (std::size_t i = begin; i < run; ++i) {
      keep(steps_[i], false);
      replays = replays || steps_[i].kind != Step::Kind::kDrop;
    }
    keep(steps_[run], true);
    level_ = std::max(level_, (replays ? levels_.live_bytes : levels_.run_bytes)[op]);
  }

  // Moves the first of these steps, as many as fit, but for drops that have to stay. Returns where
  // they end. Some fit only if others after them move too, with drops.
  std::size_t move(std::size_t begin, std::size_t end) {
    Bytes more = 0, fitting_more = 0;
    std::size_t fitting = begin;
    std::vector<bool> moves;
    for (std::size_t i = begin; i < end; ++i) {
      const Step& step = steps_[i];
      if (step.kind == Step::Kind::kRun) {
        if (!commutes(step.id) || !fitsAtWait(step.id, more)) break;
        more += take(step.id);
        moves.push_back(true);
      } else {
        moves.push_back(step.kind == Step::Kind::kDrop && mayDropAhead(step.id));
        if (moves.back()) {
          more -= freed(step.id);
        } else {
          written_[step.id] = wait_;
        }
      }
      follow(step, false);
      if (level_ + more > cap_) continue;
      fitting = i + 1;
      fitting_more = more;
    }
    for (std::size_t i = begin; i < fitting; ++i) {
      if (moves[i - begin]) {
        addMoved(steps_[i]);
      } else {
        keep(steps_[i], false);
      }
    }
    level_ += fitting_more;
    live_ += fitting_more;
    return fitting;
  }

  bool commutes(OpId replay) const {
    const Op& op = graph_.ops[replay];
    const auto stays = [this](ValueId value) { return written_[value] == wait_; };
    return replay < wait_ && std::none_of(op.inputs.begin(), op.inputs.end(), stays) &&
           std::none_of(op.outputs.begin(), op.outputs.end(), [&](ValueId output) {
             const ValueId previous = graph_.values[output].previous_epoch;
             return stays(output) || (previous != kNone && stays(previous));
           });
  }

  bool mayDropAhead(ValueId value) const {
    return touched_[value] == wait_ && read_[value] != wait_ && written_[value] != wait_;
  }

  bool fitsAtWait(OpId replay, Bytes more) const {
    const Op& op = graph_.ops[replay];
    Bytes needed = live_ + more + op.workspace_bytes + graph_.ops[wait_].fixedAtStart();
    for (ValueId output : op.outputs) needed += bytes(output);
    return needed <= cap_;
  }

  // Bytes that the replay adds where it is held.
  Bytes take(OpId replay) {
    Bytes more = 0;
    for (ValueId input : graph_.ops[replay].inputs) touched_[input] = wait_;
    for (ValueId output : graph_.ops[replay].outputs) {
      touched_[output] = wait_;
      if (held_[output]) continue;
      made_[output] = wait_;
      more += bytes(output);
    }
    return more;
  }

  // What a drop before the wait saves: nothing where the program itself holds that copy, or saved
  // tensors do.
  Bytes freed(ValueId id) {
    const Value& value = graph_.values[id];
    const bool ours =
        made_[id] == wait_ || std::max(value.last_reference, value.saved_last) < wait_;
    made_[id] = kNone;
    return ours ? bytes(id) : 0;
  }

  void addMoved(const Step& step) {
    follow(step, false);
    moved_.push_back(step);
    if (step.kind != Step::Kind::kRun) return;
    ++result_.moved;
    result_.moved_ns += graph_.ops[step.id].duration_ns;
  }

  void keep(const Step& step, bool first) {
    follow(step, first);
    stay_.push_back(step);
    if (step.kind != Step::Kind::kRun) {
      written_[step.id] = wait_;
      return;
    }
    for (ValueId input : graph_.ops[step.id].inputs) read_[input] = wait_;
    for (ValueId output : graph_.ops[step.id].outputs) written_[output] = wait_;
    if (!first) return;
    for (ValueId value : overwritten_at_[step.id]) written_[value] = wait_;
  }

  // Which values the schedule has copies of. One that outlives an overwriting is left out. What is
  // followed twice has come to the same state.
  void follow(const Step& step, bool first) {
    if (step.kind != Step::Kind::kRun) {
      held_[step.id] = step.kind == Step::Kind::kFetch;
      return;
    }
    for (ValueId output : graph_.ops[step.id].outputs) held_[output] = true;
    if (!first) return;
    for (ValueId value : overwritten_at_[step.id]) held_[value] = false;
  }

  const Graph& graph_;
  const std::vector<Step>& steps_;
  const Bytes cap_;
  const Simulation levels_;
  std::vector<std::vector<ValueId>> overwritten_at_;

  OpId wait_ = kNone;  // of the present stretch
  Bytes level_ = 0;    // the largest from the wait to before the op at hand
  Bytes live_ = 0;     // beside fixed bytes where the wait begins
  std::vector<Step> moved_, stay_;
  std::vector<bool> held_;  // per value: does the schedule have a copy?
  // Per value: the wait after which steps that stay read it, or write it; before which moved ones
  // touch it; and before which one made it and none dropped it.
  std::vector<OpId> read_, written_, touched_, made_;
  AdvancedReplays result_;
};

}  // namespace

AdvancedReplays advanceReplays(const Graph& graph, const Schedule& schedule, Bytes cap_bytes) {
  const bool waits =
      std::any_of(graph.ops.begin(), graph.ops.end(), [](const Op& op) { return op.waits; });
  if (!waits || !graph.isRecordedStep()) return {schedule};
  return Advancer(graph, schedule, cap_bytes).advance();
}

}  // namespace ebbtide::scheduler
