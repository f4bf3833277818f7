#include "ebbtide/scheduler/pipeline_simulator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;
constexpr Nanoseconds kNotYet = -1;

bool readsGradient(Kind kind) {
  return kind == Kind::kBackward || kind == Kind::kInputBackward;
}

class Machine {
 public:
  Machine(const PipelineJob& job, const StageChoices& choices) : job_(job), choices_(choices) {
    const std::vector<Nanoseconds> never(job.microbatches, kNotYet);
    outputs_.assign(job.stages.size(), never);
    gradients_.assign(job.stages.size(), never);
    at_.assign(job.ranks(), 0);
    now_.assign(job.ranks(), 0);
    ahead_.resize(job.ranks());
    simulation_.ranks.resize(job.ranks());
  }

  PipelineSimulation run() {
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) sumBytes(rank);
    job_.processors > 0 ? runShared() : runAll();
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      simulation_.ranks[rank].busy_ns += tailOf(rank);
      if (job_.processors == 0) now_[rank] += tailOf(rank);
      simulation_.makespan_ns = std::max(simulation_.makespan_ns, now_[rank]);
    }
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      RankSimulation& result = simulation_.ranks[rank];
      const Nanoseconds computes = job_.processors > 0 ? std::llround(turns_[rank].computes_ns)
                                                       : result.busy_ns + result.recompute_ns;
      result.idle_ns = std::max<Nanoseconds>(0, simulation_.makespan_ns - computes);
    }
    return std::move(simulation_);
  }

 private:
  const StagePoint& pointOf(const PipelineAction& action) const {
    return job_.profileOf(action.stage).points[choices_[action.stage][action.microbatch]];
  }

  // Runs ranks as far as they come, until none comes further. Messages on a link keep the order in
  // which their one sender sends, so the order in which ranks are taken here does not matter.
  void runAll() {
    for (bool some = true; some;) {
      some = false;
      for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
        while (at_[rank] < job_.order[rank].size() && tryNext(rank)) some = true;
      }
    }
    refuseCircle();
  }

  void refuseCircle() const {
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      if (at_[rank] == job_.order[rank].size()) continue;
      throw std::invalid_argument("the ranks wait for each other in a circle: rank " +
                                  std::to_string(rank) + " at " +
                                  toText(job_.order[rank][at_[rank]]));
    }
  }

  // When what the action reads is there; kNotYet if that is not known.
  Nanoseconds arrivalOf(const PipelineAction& action) const {
    const Stage& stage = job_.stages[action.stage];
    if (action.kind == Kind::kForward && stage.previous != kNone) {
      return outputs_[action.stage][action.microbatch];
    }
    if (readsGradient(action.kind) && stage.next != kNone) {
      return gradients_[action.stage][action.microbatch];
    }
    return 0;
  }

  bool tryNext(std::size_t rank) {
    const PipelineAction& action = job_.order[rank][at_[rank]];
    const Nanoseconds arrival = arrivalOf(action);
    if (arrival == kNotYet) return false;
    RankSimulation& result = simulation_.ranks[rank];
    const StageProfile& profile = job_.profileOf(action.stage);
    const Nanoseconds recompute = recomputeOf(action), ahead = ahead_[rank][at_[rank]];
    const Nanoseconds without = std::max(now_[rank], arrival);
    SimulatedAction& times = result.actions[at_[rank]];
    times.begin_ns = std::max(now_[rank] + recompute, arrival + recompute - ahead);
    times.replays_begin_ns = ahead > 0 ? now_[rank] : without;
    times.replays_end_ns = ahead < recompute ? times.begin_ns : times.replays_begin_ns + recompute;
    if (ahead > 0 && ahead < recompute && now_[rank] + ahead < arrival) {
      times.pause_begin_ns = now_[rank] + ahead;
      times.pause_end_ns = arrival;
    }
    const Nanoseconds duration = durationOf(action.kind, profile);
    times.end_ns = times.begin_ns + duration;
    result.busy_ns += duration;
    result.recompute_ns += recompute;
    result.hidden_ns += recompute - (times.begin_ns - without);
    now_[rank] = times.end_ns;
    ++at_[rank];
    send(action, times.end_ns);
    return true;
  }

  Nanoseconds tailOf(std::size_t rank) const {
    Nanoseconds sum = 0;
    for (const Stage& stage : job_.stages) {
      if (stage.rank == static_cast<std::int32_t>(rank)) {
        sum += job_.profiles[stage.profile].tail_ns;
      }
    }
    return sum;
  }

  // What a rank does while ranks share processors.
  enum class Phase : std::uint8_t { kNext, kReplays, kWaits, kRuns, kTail, kDone };
  struct Turn {
    Phase phase = Phase::kNext;
    double left_ns = 0;          // of processor time, for what it computes
    double late_ns = 0;          // replays that ran though what the action reads was there
    double computes_ns = 0;      // by the clock
    Nanoseconds replays_ns = 0;  // left to run
    SimulatedAction times = {};

    bool computes() const {
      return phase == Phase::kReplays || phase == Phase::kRuns || phase == Phase::kTail;
    }
  };

  // All ranks at once, from one moment to the next at which one ends something or receives
  // something. In between each one that computes runs at the same rate.
  void runShared() {
    turns_.resize(job_.ranks());
    for (;;) {
      for (bool some = true; some;) {  // messages that take no time wake ranks before this one, too
        some = false;
        for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
          while (changePhase(rank)) some = true;
        }
      }
      const auto active = std::count_if(turns_.begin(), turns_.end(),
                                        [](const Turn& turn) { return turn.computes(); });
      const double rate = active > job_.processors
                              ? static_cast<double>(job_.processors) / static_cast<double>(active)
                              : 1;
      double step_ns = std::numeric_limits<double>::infinity();
      for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
        if (turns_[rank].computes()) step_ns = std::min(step_ns, turns_[rank].left_ns / rate);
        const double arrival = static_cast<double>(nextArrival(rank));
        if (arrival > clock_ns_) step_ns = std::min(step_ns, arrival - clock_ns_);
      }
      if (std::isinf(step_ns)) break;
      for (std::size_t rank = 0; rank < job_.ranks(); ++rank) compute(rank, step_ns, rate);
      clock_ns_ += step_ns;
    }
    refuseCircle();
  }

  // When what the rank's next action reads is there; kNotYet, too, if nothing is next.
  Nanoseconds nextArrival(std::size_t rank) const {
    const bool some = at_[rank] < job_.order[rank].size();
    return some ? arrivalOf(job_.order[rank][at_[rank]]) : kNotYet;
  }

  bool hasArrived(std::size_t rank) const {
    const Nanoseconds arrival = nextArrival(rank);
    return arrival != kNotYet && static_cast<double>(arrival) <= clock_ns_;
  }

  void compute(std::size_t rank, double step_ns, double rate) {
    constexpr double kRounding = 1e-6;  // of a nanosecond
    Turn& turn = turns_[rank];
    if (!turn.computes()) return;
    const double done = std::min(turn.left_ns, step_ns * rate);
    if (turn.phase == Phase::kReplays && hasArrived(rank)) turn.late_ns += done;
    turn.computes_ns += step_ns;
    turn.left_ns = turn.left_ns - done < kRounding ? 0 : turn.left_ns - done;
  }

  // False: it needs time, or a message.
  bool changePhase(std::size_t rank) {
    Turn& turn = turns_[rank];
    if (turn.computes() && turn.left_ns > 0) return false;
    switch (turn.phase) {
      case Phase::kNext:
        beginNext(rank);
        return true;
      case Phase::kReplays:
        turn.times.replays_end_ns = std::llround(clock_ns_);
        turn.phase = Phase::kWaits;
        return true;
      case Phase::kWaits:
        return endWait(rank);
      case Phase::kRuns:
        endAction(rank);
        return true;
      case Phase::kTail:
        now_[rank] = std::llround(clock_ns_);
        turn.phase = Phase::kDone;
        return true;
      case Phase::kDone:
        break;
    }
    return false;
  }

  void beginNext(std::size_t rank) {
    Turn& turn = turns_[rank];
    if (at_[rank] == job_.order[rank].size()) {
      turn.phase = Phase::kTail;
      turn.left_ns = static_cast<double>(tailOf(rank));
      return;
    }
    turn.times = simulation_.ranks[rank].actions[at_[rank]];
    turn.times.replays_begin_ns = kNotYet;
    turn.late_ns = 0;
    turn.replays_ns = recomputeOf(job_.order[rank][at_[rank]]);
    turn.phase = Phase::kWaits;
    if (ahead_[rank][at_[rank]] > 0) beginReplays(rank, ahead_[rank][at_[rank]]);
  }

  void beginReplays(std::size_t rank, Nanoseconds ns) {
    Turn& turn = turns_[rank];
    const Nanoseconds now = std::llround(clock_ns_);
    turn.phase = Phase::kReplays;
    turn.left_ns = static_cast<double>(ns);
    turn.replays_ns -= ns;
    if (turn.times.replays_begin_ns == kNotYet) {
      turn.times.replays_begin_ns = now;
    } else if (now > turn.times.replays_end_ns) {
      turn.times.pause_begin_ns = turn.times.replays_end_ns;
      turn.times.pause_end_ns = now;
    }
  }

  bool endWait(std::size_t rank) {
    Turn& turn = turns_[rank];
    if (!hasArrived(rank)) return false;
    const PipelineAction& action = job_.order[rank][at_[rank]];
    if (turn.replays_ns > 0) {
      beginReplays(rank, turn.replays_ns);
      return true;
    }
    turn.times.begin_ns = std::llround(clock_ns_);
    if (turn.times.replays_begin_ns == kNotYet)
      turn.times.replays_begin_ns = turn.times.replays_end_ns = turn.times.begin_ns;
    turn.phase = Phase::kRuns;
    turn.left_ns = static_cast<double>(durationOf(action.kind, job_.profileOf(action.stage)));
    return true;
  }

  void endAction(std::size_t rank) {
    Turn& turn = turns_[rank];
    const PipelineAction& action = job_.order[rank][at_[rank]];
    RankSimulation& result = simulation_.ranks[rank];
    turn.times.end_ns = std::llround(clock_ns_);
    result.busy_ns += durationOf(action.kind, job_.profileOf(action.stage));
    result.recompute_ns += recomputeOf(action);
    result.hidden_ns += recomputeOf(action) - std::llround(turn.late_ns);
    result.actions[at_[rank]] = turn.times;
    turn.phase = Phase::kNext;
    ++at_[rank];
    send(action, turn.times.end_ns);
  }

  Nanoseconds recomputeOf(const PipelineAction& action) const {
    return readsGradient(action.kind) ? pointOf(action).recompute_ns : 0;
  }

  static Nanoseconds durationOf(Kind kind, const StageProfile& profile) {
    switch (kind) {
      case Kind::kForward:
        return profile.forward_ns;
      case Kind::kInputBackward:
        return profile.input_backward_ns;
      case Kind::kWeightBackward:
        return profile.weight_backward_ns;
      case Kind::kBackward:
        break;
    }
    return profile.input_backward_ns + profile.weight_backward_ns;
  }

  void send(const PipelineAction& action, Nanoseconds now) {
    const Stage& stage = job_.stages[action.stage];
    if (action.kind == Kind::kForward && stage.next != kNone) {
      outputs_[stage.next][action.microbatch] = arrival(
          stage.rank, job_.stages[stage.next].rank, now, job_.profiles[stage.profile].output_bytes);
    } else if (readsGradient(action.kind) && stage.previous != kNone) {
      gradients_[stage.previous][action.microbatch] =
          arrival(stage.rank, job_.stages[stage.previous].rank, now,
                  job_.profileOf(stage.previous).output_bytes);
    }
  }

  Nanoseconds arrival(std::int32_t from, std::int32_t to, Nanoseconds now, Bytes bytes) {
    if (from == to) return now;
    Nanoseconds& free = link_free_[{from, to}];
    free = std::max(free, now);
    if (job_.bytes_per_second > 0) {
      free += std::llround(static_cast<double>(bytes) / job_.bytes_per_second * 1e9);
    }
    return free + job_.latency_ns;
  }

  // What the rank holds depends on the order of its actions alone; so does the room for replays.
  void sumBytes(std::size_t rank) {
    RankSimulation& result = simulation_.ranks[rank];
    result.actions.resize(job_.order[rank].size());
    Bytes live = 0;
    for (const Stage& stage : job_.stages) {
      if (stage.rank == static_cast<std::int32_t>(rank)) {
        live += job_.profiles[stage.profile].fixed_bytes;
      }
    }
    result.peak_bytes = live;
    for (std::size_t i = 0; i < job_.order[rank].size(); ++i) {
      const PipelineAction& action = job_.order[rank][i];
      const StagePoint& point = pointOf(action);
      Bytes most = live;
      switch (action.kind) {
        case Kind::kForward:
          most = live + point.forward_bytes;
          live += point.held_bytes;
          break;
        case Kind::kBackward:
          live -= point.held_bytes;
          most = live + point.backward_bytes;
          break;
        case Kind::kInputBackward:
          live -= point.held_bytes;
          most = live + point.backward_bytes;
          live += job_.profileOf(action.stage).weight_held_bytes;
          break;
        case Kind::kWeightBackward:
          live -= job_.profileOf(action.stage).weight_held_bytes;
          break;
      }
      const Bytes besides = job_.besidesBytes(rank, i);
      most += besides;
      const Bytes room = job_.budgets[rank] - most;
      ahead_[rank].push_back(aheadOf(action, room));
      most += takenAhead(action, room, ahead_[rank].back());
      result.actions[i].most_bytes = std::max(most, live + besides);
      if (result.actions[i].most_bytes > result.peak_bytes) {
        result.peak_bytes = result.actions[i].most_bytes;
        result.peak_action = i;
      }
    }
  }

  // Of an action's replays those that run before its gradient is asked for.
  Nanoseconds aheadOf(const PipelineAction& action, Bytes room) const {
    const Nanoseconds recompute = recomputeOf(action);
    if (!job_.replays_ahead || job_.stages[action.stage].next == kNone) return 0;
    const Bytes more = pointOf(action).aheadBytes() - pointOf(action).backward_bytes;
    if (more == 0 || room >= more) return recompute;
    if (room <= 0) return 0;
    return static_cast<Nanoseconds>(static_cast<double>(recompute) * static_cast<double>(room) /
                                    static_cast<double>(more));
  }

  // At most the room, where not all of them run ahead.
  Bytes takenAhead(const PipelineAction& action, Bytes room, Nanoseconds ahead) const {
    if (ahead == 0) return 0;
    const Bytes more = pointOf(action).aheadBytes() - pointOf(action).backward_bytes;
    const Nanoseconds recompute = recomputeOf(action);
    if (ahead == recompute) return more;
    const double share = static_cast<double>(ahead) / static_cast<double>(recompute);
    return std::min(room, static_cast<Bytes>(std::ceil(share * static_cast<double>(more))));
  }

  const PipelineJob& job_;
  const StageChoices& choices_;
  // When the forward's input and the gradient of the output are there; by stage, by microbatch.
  std::vector<std::vector<Nanoseconds>> outputs_, gradients_;
  std::map<std::pair<std::int32_t, std::int32_t>, Nanoseconds> link_free_;
  std::vector<std::vector<Nanoseconds>> ahead_;  // of the replays, by rank, by position
  std::vector<std::size_t> at_;                  // each rank's next action
  std::vector<Nanoseconds> now_;                 // when its last one ended
  std::vector<Turn> turns_;                      // of ranks that share processors
  double clock_ns_ = 0;                          // theirs
  PipelineSimulation simulation_;
};

void checkChoices(const PipelineJob& job, const StageChoices& choices) {
  if (choices.size() != job.stages.size()) {
    throw std::invalid_argument("choices for " + std::to_string(choices.size()) + " stages of " +
                                std::to_string(job.stages.size()));
  }
  for (std::size_t stage = 0; stage < choices.size(); ++stage) {
    const auto points = job.profiles[job.stages[stage].profile].points.size();
    const bool fits = choices[stage].size() == static_cast<std::size_t>(job.microbatches) &&
                      std::all_of(choices[stage].begin(), choices[stage].end(), [&](auto point) {
                        return point >= 0 && static_cast<std::size_t>(point) < points;
                      });
    if (!fits) {
      throw std::invalid_argument("the choices for stage " + std::to_string(stage) +
                                  " are not one of its points for each microbatch");
    }
  }
}

}  // namespace

std::vector<std::pair<Nanoseconds, Nanoseconds>> replayTimes(const SimulatedAction& action) {
  if (action.replays_end_ns == action.replays_begin_ns) return {};
  if (action.pause_end_ns == 0) return {{action.replays_begin_ns, action.replays_end_ns}};
  return {{action.replays_begin_ns, action.pause_begin_ns},
          {action.pause_end_ns, action.replays_end_ns}};
}

PipelineSimulation simulate(const PipelineJob& job, const StageChoices& choices) {
  checkChoices(job, choices);
  return Machine(job, choices).run();
}

StageChoices uniformChoices(const PipelineJob& job, std::int32_t point) {
  StageChoices choices;
  for (const Stage& stage : job.stages) {
    const auto last = static_cast<std::int32_t>(job.profiles[stage.profile].points.size()) - 1;
    choices.emplace_back(job.microbatches, std::min(point, last));
  }
  return choices;
}

}  // namespace ebbtide::scheduler
