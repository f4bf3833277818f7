#include "pipeline/pipeline_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

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

// The hull's parts of all profiles, by rising cost.
struct ProfileStep {
  std::int32_t profile;
  HullStep step;
};

std::vector<ProfileStep> stepsByCost(const std::vector<StageProfile>& profiles) {
  std::vector<ProfileStep> steps;
  for (std::size_t profile = 0; profile < profiles.size(); ++profile) {
    for (const HullStep& step : lowerHull(profiles[profile]))
      steps.push_back({static_cast<std::int32_t>(profile), step});
  }
  std::stable_sort(steps.begin(), steps.end(), [](const ProfileStep& a, const ProfileStep& b) {
    return a.step.costOfByte() < b.step.costOfByte();
  });
  return steps;
}

class RankReplays {
 public:
  // `fixed_bytes` of its stages; `steps` outlive it.
  RankReplays(const PipelineJob& job, std::size_t rank, Bytes fixed_bytes,
              const std::vector<ProfileStep>& steps)
      : job_(job),
        rank_(rank),
        live_(static_cast<double>(fixed_bytes)),
        steps_(steps),
        in_flight_(job.profiles.size(), 0) {}

  // At least so many ns of replays.
  double least() {
    const std::vector<PipelineAction>& order = job_.order[rank_];
    // best[i]: from positions before i, that share no microbatch.
    std::vector<double> best(order.size() + 1, 0);
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> position_of;  // of a forward
    std::set<std::size_t> positions;                                           // of those in flight
    for (std::size_t i = 0; i < order.size(); ++i) {
      const PipelineAction& action = order[i];
      if (action.kind == Kind::kBackward || action.kind == Kind::kInputBackward) {
        positions.erase(position_of.at({action.stage, action.microbatch}));
        --in_flight_[job_.stages[action.stage].profile];
      }
      const std::size_t first = positions.empty() ? i : *positions.begin();
      best[i + 1] = std::max(best[i], best[first] + replaysAt(action, job_.besidesBytes(rank_, i)));
      const auto held = static_cast<double>(job_.profileOf(action.stage).weight_held_bytes);
      if (action.kind == Kind::kForward) {
        position_of[{action.stage, action.microbatch}] = i;
        positions.insert(i);
        ++in_flight_[job_.stages[action.stage].profile];
      }
      if (action.kind == Kind::kInputBackward) live_ += held;
      if (action.kind == Kind::kWeightBackward) live_ -= held;
    }
    return best[order.size()];
  }

 private:
  double replaysAt(const PipelineAction& action, Bytes besides_bytes) const {
    double own = std::numeric_limits<double>::max();
    for (const StagePoint& point : job_.profileOf(action.stage).points) {
      own =
          std::min(own, static_cast<double>(action.kind == Kind::kForward ? point.forward_bytes
                                                                          : point.backward_bytes));
    }
    if (action.kind == Kind::kWeightBackward) own = 0;
    double over = live_ + own + static_cast<double>(besides_bytes - job_.budgets[rank_]);
    for (std::size_t profile = 0; profile < in_flight_.size(); ++profile) {
      if (in_flight_[profile] == 0) continue;
      over += static_cast<double>(job_.profiles[profile].points.front().held_bytes) *
              static_cast<double>(in_flight_[profile]);
    }
    double ns = 0;
    for (const ProfileStep& each : steps_) {
      if (over <= 0) break;
      const auto count = static_cast<double>(in_flight_[each.profile]);
      const double used = std::min(count, over / each.step.bytes);
      ns += used * each.step.ns;
      over -= used * each.step.bytes;
    }
    return ns;
  }

  const PipelineJob& job_;
  const std::size_t rank_;
  double live_;  // besides what microbatches hold
  const std::vector<ProfileStep>& steps_;
  std::vector<std::int64_t> in_flight_;  // microbatches of each profile
};

}  // namespace

Nanoseconds makespanLowerBound(const PipelineJob& job) {
  PipelineTimeline timeline(job);
  const std::vector<Nanoseconds> none(timeline.actions(), 0);
  Nanoseconds bound = timeline.run(none, none);
  timeline.slacks(none, none);
  std::vector<Bytes> fixed_bytes(job.ranks(), 0);
  for (const Stage& stage : job.stages)
    fixed_bytes[stage.rank] += job.profiles[stage.profile].fixed_bytes;
  const std::vector<ProfileStep> steps = stepsByCost(job.profiles);
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    if (job.order[rank].empty()) continue;
    Nanoseconds actions = 0;
    for (std::size_t i = 0; i < job.order[rank].size(); ++i) {
      actions += timeline.durationOf(timeline.numberOf(rank, i));
    }
    const double replays = RankReplays(job, rank, fixed_bytes[rank], steps).least();
    bound = std::max(
        bound, timeline.beginOf(timeline.numberOf(rank, 0)) + actions +
                   static_cast<Nanoseconds>(std::floor(replays * (1 - 1e-9))) +
                   timeline.remainingAfter(timeline.numberOf(rank, job.order[rank].size() - 1)));
  }
  return bound;
}

}  // namespace ebbtide::scheduler
