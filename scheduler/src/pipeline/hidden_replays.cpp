#include "ebbtide/scheduler/hidden_replays.hpp"

#include <algorithm>
#include <cmath>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "pipeline/pipeline_timeline.hpp"
#include "search/replay_polish.hpp"

namespace ebbtide::scheduler {
namespace {

// Free replays count a little, so that of two that are free the shorter one is taken.
constexpr double kLeastWeight = 0.02;
constexpr std::int64_t kMoves = 100'000;
constexpr double kLeastGain = 1e-3;

std::int64_t asIndex(std::size_t index) {
  return static_cast<std::int64_t>(index);
}

bool isReplayedFor(PipelineAction::Kind kind) {
  return kind == PipelineAction::Kind::kBackward || kind == PipelineAction::Kind::kInputBackward;
}

}  // namespace

ReplayedStep replayedStep(const PipelineJob& job,
                          const std::vector<std::vector<Nanoseconds>>& replays_ns) {
  PipelineTimeline timeline(job);
  std::vector<Nanoseconds> before(timeline.actions(), 0);
  const auto for_each_backward = [&](const auto& visit) {
    for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
      for (std::size_t i = 0; i < job.order[rank].size(); ++i) {
        const PipelineAction& action = job.order[rank][i];
        if (isReplayedFor(action.kind)) visit(action, timeline.numberOf(rank, i));
      }
    }
  };
  for_each_backward([&](const PipelineAction& action, std::int32_t number) {
    before[number] = replays_ns[action.stage][action.microbatch];
  });
  ReplayedStep step;
  std::vector<Nanoseconds> ahead(timeline.actions(), 0);
  if (job.replays_ahead) ahead = before;
  step.makespan_ns = timeline.run(before, ahead);
  step.free_ns.assign(job.stages.size(), std::vector<Nanoseconds>(job.microbatches, 0));
  const std::vector<Nanoseconds>& slacks = timeline.slacks(before, ahead);
  for_each_backward([&](const PipelineAction& action, std::int32_t number) {
    const Nanoseconds made_up = slacks[number] > 0 ? before[number] : 0;
    const Nanoseconds wait = job.replays_ahead ? timeline.waitOf(number) : 0;
    step.free_ns[action.stage][action.microbatch] = std::max(made_up, wait);
  });
  return step;
}

std::vector<Nanoseconds> replaysOf(const Graph& step,
                                   const std::vector<MicrobatchOps>& microbatches,
                                   const Schedule& schedule) {
  // Per op: the microbatch of its backward pass; between two passes, the microbatch of the next
  // one.
  std::vector<std::int64_t> serves(step.ops.size() + 1, kNone);
  for (std::size_t m = 0; m < microbatches.size(); ++m) {
    for (const auto* ops : {&microbatches[m].backward, &microbatches[m].weight_backward}) {
      for (const OpId op : *ops) serves[op] = asIndex(m);
    }
  }
  for (std::size_t op = step.ops.size(); op-- > 0;) {
    if (serves[op] == kNone) serves[op] = serves[op + 1];
  }
  std::vector<Nanoseconds> replays(microbatches.size(), 0);
  OpId next = 0;  // to run for the first time
  for (const Step& s : schedule.steps) {
    if (s.kind != Step::Kind::kRun) continue;
    if (s.id == next) {
      ++next;
    } else if (serves[next] != kNone) {
      replays[serves[next]] += step.ops[s.id].duration_ns;
    }
  }
  return replays;
}

Nanoseconds exposedNs(const std::vector<Nanoseconds>& replays_ns,
                      const std::vector<Nanoseconds>& free_ns) {
  Nanoseconds exposed = 0;
  for (std::size_t m = 0; m < replays_ns.size(); ++m)
    exposed += std::max<Nanoseconds>(0, replays_ns[m] - free_ns[m]);
  return exposed;
}

Schedule exposeLess(const Graph& step, const std::vector<MicrobatchOps>& microbatches,
                    const std::vector<Nanoseconds>& free_ns, Bytes budget_bytes,
                    const Schedule& start, const PlannerOptions& options) {
  const std::vector<Nanoseconds> replays = replaysOf(step, microbatches, start);
  const Nanoseconds exposed = exposedNs(replays, free_ns);
  if (exposed == 0) return start;
  Graph weighed = step;
  for (std::size_t m = 0; m < microbatches.size(); ++m) {
    const double free = static_cast<double>(free_ns[m]);
    const double all = static_cast<double>(std::max<Nanoseconds>({replays[m], free_ns[m], 1}));
    const double weight = std::max(kLeastWeight, 1 - free / all);
    for (const OpId op : microbatches[m].forward) {
      Nanoseconds& ns = weighed.ops[op].duration_ns;
      ns = static_cast<Nanoseconds>(std::ceil(static_cast<double>(ns) * weight));
    }
  }
  Schedule found =
      polish(weighed, budget_bytes, options, start, {.moves = kMoves, .least_gain = kLeastGain});
  const bool better = !validate(step, found) && simulate(step, found).peak_bytes <= budget_bytes &&
                      exposedNs(replaysOf(step, microbatches, found), free_ns) < exposed;
  return better ? found : start;
}

}  // namespace ebbtide::scheduler
