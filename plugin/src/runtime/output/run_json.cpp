#include "runtime/output/run_json.hpp"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

namespace ebbtide::plugin {
namespace {

using nlohmann::json;

constexpr std::size_t kTimelinePoints = 2000;

}  // namespace

json planSummary(const Plan* plan, std::int64_t active_from_step) {
  if (plan == nullptr) return nullptr;
  return {{"planner", plan->origin.planner},
          {"asked", plan->origin.asked},
          {"note", plan->origin.note.empty() ? json() : json(plan->origin.note)},
          {"predicted_peak_bytes", plan->predicted.peak_bytes},
          {"overhead_ratio", plan->predicted.overhead_ratio},
          {"recomputed_ops", plan->predicted.replays},
          {"replays_ahead", plan->predicted.replays_ahead},
          {"decoded_values", plan->predicted.decodes},
          {"offloaded_values", plan->predicted.host_fetches},
          {"offloaded_bytes", plan->predicted.host_bytes},
          {"active_from_step", active_from_step < 0 ? json() : json(active_from_step)},
          {"plan_seconds", plan->origin.plan_seconds}};
}

json timelineJson(const RunFigures::Timeline& timeline) {
  json seconds = json::array(), live = json::array(), mapped = json::array();
  for (const RunFigures::Moment& moment : RunFigures::thinned(timeline, kTimelinePoints)) {
    seconds.push_back(moment.seconds);
    live.push_back(moment.live_bytes);
    mapped.push_back(moment.mapped_bytes);
  }
  const bool recorded = !timeline.empty() && timeline.front().mapped_bytes > 0;
  return {{"seconds", std::move(seconds)},
          {"live_bytes", std::move(live)},
          {"mapped_bytes", recorded ? std::move(mapped) : json()}};
}

}  // namespace ebbtide::plugin
