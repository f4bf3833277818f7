#include "pipeline/pipeline_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "pipeline/pipeline_timeline.hpp"

namespace ebbtide::scheduler {
namespace {

using Kind = PipelineAction::Kind;

// A part of a stage's lower hull: so many bytes less for so much time.
struct HullStep {
  double bytes = 0, ns = 0;
  double costOfByte() const { return ns / bytes; }
};

// From the first point on, of rising cost.
std::vector<HullStep> lowerHull(const StageProfile& profile) {
  std::vector<HullStep> hull;
  for (std::size_t i = 1; i < profile.points.size(); ++i) {
    const StagePoint &from = profile.points[i - 1], &to = profile.points[i];
    HullStep step = {static_cast<double>(from.held_bytes - to.held_bytes),
                     static_cast<double>(to.recompute_ns - from.recompute_ns)};
    while (!hull.empty() && hull.back().costOfByte() >= step.costOfByte()) {
      step = {step.bytes + hull.back().bytes, step.ns + hull.back().ns};
      hull.pop_back();
    }
    hull.push_back(step);
  }
  return hull;
}

class RankReplays {
 public:
  RankReplays(const PipelineJob& job, std::size_t rank) : job_(job), rank_(rank) {}

  // At least so many ns of replays.
  double least() {
    const std::vector<PipelineAction>& order = job_.order[rank_];
    double live = 0;
    for (const Stage& stage : job_.stages) {
      if (stage.rank == static_cast<std::int32_t>(rank_)) {
        live += static_cast<double>(job_.profiles[stage.profile].fixed_bytes);
      }
    }
    // best[i]: from positions before i, that share no microbatch.
    std::vector<double> best(order.size() + 1, 0);
    std::vector<InFlight> in_flight;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const PipelineAction& action = order[i];
      if (action.kind == Kind::kBackward || action.kind == Kind::kInputBackward) {
        std::erase_if(in_flight, [&](const InFlight& other) {
          return other.stage == action.stage && other.microbatch == action.microbatch;
        });
      }
      const std::size_t first = in_flight.empty() ? i : in_flight.front().position;
      best[i + 1] = std::max(best[i], best[first] + replaysAt(action, live, in_flight));
      const auto held = static_cast<double>(job_.profileOf(action.stage).weight_held_bytes);
      if (action.kind == Kind::kForward) in_flight.push_back({action.stage, action.microbatch, i});
      if (action.kind == Kind::kInputBackward) live += held;
      if (action.kind == Kind::kWeightBackward) live -= held;
    }
    return best[order.size()];
  }

 private:
  struct InFlight {
    std::int32_t stage, microbatch;
    std::size_t position;  // of its forward
  };

  double replaysAt(const PipelineAction& action, double live,
                   const std::vector<InFlight>& in_flight) const {
    double own = std::numeric_limits<double>::max();
    for (const StagePoint& point : job_.profileOf(action.stage).points) {
      own =
          std::min(own, static_cast<double>(action.kind == Kind::kForward ? point.forward_bytes
                                                                          : point.backward_bytes));
    }
    if (action.kind == Kind::kWeightBackward) own = 0;
    double over = live + own - static_cast<double>(job_.budgets[rank_]);
    std::vector<HullStep> steps;
    for (const InFlight& other : in_flight) {
      const StageProfile& profile = job_.profileOf(other.stage);
      over += static_cast<double>(profile.points.front().held_bytes);
      const std::vector<HullStep> hull = lowerHull(profile);
      steps.insert(steps.end(), hull.begin(), hull.end());
    }
    if (over <= 0) return 0;
    std::sort(steps.begin(), steps.end(),
              [](const HullStep& a, const HullStep& b) { return a.costOfByte() < b.costOfByte(); });
    double ns = 0;
    for (const HullStep& step : steps) {
      const double part = std::min(1.0, over / step.bytes);
      ns += part * step.ns;
      over -= part * step.bytes;
      if (over <= 0) break;
    }
    return ns;
  }

  const PipelineJob& job_;
  const std::size_t rank_;
};

}  // namespace

Nanoseconds makespanLowerBound(const PipelineJob& job) {
  PipelineTimeline timeline(job);
  const std::vector<Nanoseconds> none(timeline.actions(), 0);
  Nanoseconds bound = timeline.run(none);
  timeline.slacks(none);
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    if (job.order[rank].empty()) continue;
    Nanoseconds actions = 0;
    for (std::size_t i = 0; i < job.order[rank].size(); ++i) {
      actions += timeline.durationOf(timeline.numberOf(rank, i));
    }
    const double replays = RankReplays(job, rank).least();
    bound = std::max(
        bound, timeline.beginOf(timeline.numberOf(rank, 0)) + actions +
                   static_cast<Nanoseconds>(std::floor(replays * (1 - 1e-9))) +
                   timeline.remainingAfter(timeline.numberOf(rank, job.order[rank].size() - 1)));
  }
  return bound;
}

}  // namespace ebbtide::scheduler
