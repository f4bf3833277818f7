#include "control/rank_status.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "ebbtide/metrics/or_null.hpp"
#include "plan/plan_picture.hpp"
#include "runtime/output/run_json.hpp"

namespace ebbtide::plugin {
namespace {

using nlohmann::json;

constexpr double kSecond = 1e-9;  // of a nanosecond

json unlessZero(std::int64_t value) {
  return value == 0 ? json() : json(value);
}

json ofId(std::int32_t id) {
  return id == scheduler::kNone ? json() : json(id);
}

std::string text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

json ofStepSeconds(const RankStatus& status) {
  if (!status.step_time) return {{"first", nullptr}, {"last", nullptr}, {"median", nullptr}};
  return {{"first", status.first_step_seconds},
          {"last", status.recent.newest().seconds},
          {"median", status.step_time->seconds}};
}

double recomputeRatio(const std::vector<RecentSteps::Step>& steps) {
  double all = 0, recompute = 0;
  for (const RecentSteps::Step& step : steps) {
    all += step.seconds;
    recompute += step.recompute_seconds;
  }
  return all > 0 ? recompute / all : 0;
}

json ofHistory(const std::vector<RecentSteps::Step>& last) {
  json history = {{"steps", json::array()},
                  {"step_seconds", json::array()},
                  {"peak_bytes", json::array()},
                  {"recompute_seconds", json::array()}};
  for (const RecentSteps::Step& step : last) {
    history["steps"].push_back(step.number);
    history["step_seconds"].push_back(step.seconds);
    history["peak_bytes"].push_back(step.peak_bytes);
    history["recompute_seconds"].push_back(step.recompute_seconds);
  }
  return history;
}

json ofMemory(const RankStatus::Memory& memory) {
  return {{"budget_bytes", metrics::orNull(memory.budget_bytes)},
          {"allocated_bytes", memory.allocated_bytes},
          {"mapped_bytes", memory.mapped_bytes},
          {"cached_bytes", memory.cached_bytes},
          {"peak_allocated_bytes", memory.peak_allocated_bytes},
          {"peak_mapped_bytes", memory.peak_mapped_bytes},
          {"predicted_peak_bytes", unlessZero(memory.predicted_peak_bytes)},
          {"base_bytes", memory.base_bytes},
          {"margin_bytes", memory.margin_bytes},
          {"step_peak_bytes", memory.step_peak_bytes}};
}

json ofGpu(const std::optional<GpuIdentity>& gpu) {
  if (!gpu) return nullptr;
  return {{"index", gpu->index}, {"uuid", gpu->uuid}};
}

json ofTotals(const RankStatus::Totals& totals) {
  const ExecutorCounters::Totals& done = totals.executor;
  return {{"recomputed_ops", done.recomputed_ops},
          {"recompute_seconds", static_cast<double>(done.recompute_ns) * kSecond},
          {"replays_ahead", done.replays_ahead},
          {"decoded_values", done.decoded_values},
          {"offloaded_bytes", done.offloaded_bytes},
          {"spilled_bytes", done.spilled_bytes},
          {"budget_violations", totals.budget_violations},
          {"replans", done.replans},
          {"followed_steps", done.followed_steps},
          {"ooms", done.ooms},
          {"audited", totals.audited},
          {"rejected", totals.rejected}};
}

json ofTimeline(const PlanView& view) {
  if (view.timeline == nullptr || view.timeline->empty()) return nullptr;
  json timeline = timelineJson(*view.timeline);
  timeline["budget_bytes"] = metrics::orNull(view.budget_bytes);
  return timeline;
}

json ofAreas(const PlanPicture* picture) {
  json areas = json::array();
  if (picture == nullptr) return areas;
  for (const scheduler::MemoryArea& area : picture->areas.areas) {
    areas.push_back(
        {{"label", area.label}, {"action", nameOf(area.action)}, {"live_bytes", area.live_bytes}});
  }
  return areas;
}

json ofTimes(const PlanPicture* picture) {
  json seconds = json::array();
  if (picture == nullptr) return seconds;
  for (const scheduler::Nanoseconds at : picture->areas.at_ns)
    seconds.push_back(static_cast<double>(at) * kSecond);
  return seconds;
}

json ofRecomputed(const PlanPicture* picture) {
  json rows = json::array();
  if (picture == nullptr) return rows;
  for (const PlanPicture::Recomputed& row : picture->recomputed) {
    rows.push_back({{"op", row.op},
                    {"ops", row.ops},
                    {"seconds", row.seconds},
                    {"freed_bytes", row.freed_bytes}});
  }
  return rows;
}

json ofGantt(const PlanPicture* picture, int rank) {
  if (picture == nullptr || picture->slices.empty()) return nullptr;
  json slices = json::array();
  for (const PlanPicture::Slice& slice : picture->slices) {
    slices.push_back({{"kind", slice.kind},
                      {"microbatch", ofId(slice.microbatch)},
                      {"stage", ofId(slice.stage)},
                      {"start_seconds", slice.start_seconds},
                      {"seconds", slice.seconds}});
  }
  json row = {{"name", "rank " + std::to_string(rank)}, {"slices", std::move(slices)}};
  return {{"rows", json::array({std::move(row)})}};
}

}  // namespace

std::string statusJson(const RankStatus& status) {
  const RankStatus::Rank& rank = status.rank;
  const std::vector<RecentSteps::Step> last = status.recent.last();
  return text(
      {{"rank", rank.rank},
       {"local_rank", rank.local_rank},
       {"world_size", rank.world_size},
       {"local_world_size", rank.local_world_size},
       {"job_id", rank.job_id},
       {"host", rank.host},
       {"pid", rank.pid},
       {"version", rank.version},
       {"torch_version", rank.torch_version},
       {"device", rank.device},
       {"gpu", ofGpu(rank.gpu)},
       {"stages", rank.stages},
       {"mode", status.mode},
       {"state", status.state},
       {"on_infeasible", status.stops_on_infeasible ? "stop" : "best-effort"},
       {"steps", status.steps},
       {"last_step_unix_seconds", last.empty() ? json() : json(status.recent.lastUnixSeconds())},
       {"step_seconds", ofStepSeconds(status)},
       {"memory", ofMemory(status.memory)},
       {"totals", ofTotals(status.totals)},
       {"recompute_ratio", recomputeRatio(status.recent.last(RecentSteps::kWindow))},
       {"plan", planSummary(status.plan.get(), status.active_from_step)},
       {"smallest_feasible_budget_bytes", unlessZero(status.smallest_feasible_budget_bytes)},
       {"history", ofHistory(last)}});
}

std::string planJson(const PlanView& view) {
  json plan = planSummary(view.plan.get(), view.active_from_step);
  if (view.plan != nullptr) plan["plain_peak_bytes"] = view.plain_peak_bytes;
  const PlanPicture* const picture = view.picture.get();
  return text({{"rank", view.rank},
               {"mode", view.mode},
               {"plan", std::move(plan)},
               {"timeline", ofTimeline(view)},
               {"areas", ofAreas(picture)},
               {"area_seconds", ofTimes(picture)},
               {"recomputed", ofRecomputed(picture)},
               {"gantt", ofGantt(picture, view.rank)}});
}

}  // namespace ebbtide::plugin
