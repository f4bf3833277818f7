#include "ebbtide/scheduler/microbatch_curve.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/search_end.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"

namespace ebbtide::scheduler {
namespace {

using Clock = std::chrono::steady_clock;

// The least that no schedule can get below, held between forward and backward: what is read later
// and cannot be made again.
Bytes leastHeld(const Microbatch& microbatch) {
  Graph graph = microbatch.graph();
  // Nothing else counts where this is larger than all of it.
  const Bytes all = graph.totalValueBytes();
  for (std::size_t op = 0; op < graph.ops.size(); ++op) {
    graph.ops[op].fixed_bytes = graph.ops[op].fixed_at_start = 0;
    graph.ops[op].workspace_bytes = 0;
  }
  Op& held = graph.ops[microbatch.held()];
  held.fixed_bytes = held.fixed_at_start = all;
  return std::max<Bytes>(0, peakLowerBound(graph) - all);
}

class Curve {
 public:
  Curve(const Microbatch& microbatch, const CurveOptions& options)
      : microbatch_(microbatch), options_(options), graph_(microbatch.graph()) {}

  std::vector<MicrobatchPoint> build() {
    add(keepEverything(graph_));
    const StagePoint everything = curve_.front().point;
    const Bytes most = everything.held_bytes, least = leastHeld(microbatch_);
    const auto levels = static_cast<Bytes>(std::max<std::size_t>(options_.points, 1) - 1);
    for (Bytes level = 1; level <= levels && !SearchEnd(options_.planner_options).reached();
         ++level) {
      const Bytes held = most - (most - least) * level / levels;
      addLevel(held, std::max(everything.forward_bytes, everything.backward_bytes),
               static_cast<double>(levels - level + 1));
    }
    keepBest();
    return std::move(curve_);
  }

 private:
  // So much between the passes; while they run what the others leave.
  void addLevel(Bytes held_bytes, Bytes plain_bytes, double levels_left) {
    const Bytes others = held_bytes * (options_.in_flight - 1);
    const Bytes running =
        std::clamp(options_.most_bytes - others, held_bytes, std::max(plain_bytes, held_bytes));
    Op& held = graph_.ops[microbatch_.held()];
    held.fixed_bytes = held.fixed_at_start = running - held_bytes;
    PlannerOptions options = options_.planner_options;
    if (options.deadline != Clock::time_point::max()) {
      const auto left = options.deadline - Clock::now();
      options.deadline =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(left / levels_left);
    }
    add(planner(options_.planner).plan(graph_, running, options).schedule);
  }

  void add(Schedule schedule) {
    if (validate(graph_, schedule)) return;
    const StagePoint point = microbatch_.pointOf(schedule);
    curve_.push_back({point, std::move(schedule)});
  }

  // Leaves those that hold less than all that are quicker.
  void keepBest() {
    std::stable_sort(curve_.begin() + 1, curve_.end(),
                     [](const MicrobatchPoint& a, const MicrobatchPoint& b) {
                       return a.point.recompute_ns != b.point.recompute_ns
                                  ? a.point.recompute_ns < b.point.recompute_ns
                                  : a.point.held_bytes < b.point.held_bytes;
                     });
    std::vector<MicrobatchPoint> best;
    for (MicrobatchPoint& each : curve_) {
      // One that costs no more than the last, and holds less, takes its place.
      if (!best.empty() && each.point.recompute_ns == best.back().point.recompute_ns &&
          each.point.held_bytes < best.back().point.held_bytes) {
        best.back() = std::move(each);
        continue;
      }
      const bool better =
          best.empty() || (each.point.held_bytes < best.back().point.held_bytes &&
                           each.point.recompute_ns > best.back().point.recompute_ns);
      if (better) best.push_back(std::move(each));
    }
    curve_ = std::move(best);
  }

  const Microbatch& microbatch_;
  const CurveOptions& options_;
  Graph graph_;
  std::vector<MicrobatchPoint> curve_;
};

}  // namespace

std::vector<MicrobatchPoint> microbatchCurve(const Microbatch& microbatch,
                                             const CurveOptions& options) {
  return Curve(microbatch, options).build();
}

}  // namespace ebbtide::scheduler
