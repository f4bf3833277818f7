#include "job/rank_planning.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/hidden_replays.hpp"
#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/validator.hpp"
#include "ebbtide/scheduler/value_copies.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::MicrobatchOps;
using scheduler::RankActions;
using scheduler::Schedule;

// Of each action. Who reads a report counts messages in the order of actions. Names put a receive
// with what reads it, though the program may ask for it before one that is read earlier (torch's
// zero bubble and V schedules): it is told with that one's action.
std::vector<std::vector<RankReport::Message>> messagesOf(const RankActions& actions) {
  std::vector<std::pair<scheduler::RankMessage, std::size_t>> received;  // and its action
  for (std::size_t i = 0; i < actions.actions.size(); ++i) {
    for (const auto& each : actions.actions[i].received) received.emplace_back(each, i);
  }
  std::sort(received.begin(), received.end(), [](const auto& left, const auto& right) {
    return left.first.message < right.first.message;
  });
  std::map<std::int32_t, std::size_t> first;  // of each peer: that reads one asked for later
  for (auto at = received.rbegin(); at != received.rend(); ++at) {
    std::size_t& known = first.try_emplace(at->first.peer, at->second).first->second;
    known = at->second = std::min(known, at->second);
  }
  std::vector<std::vector<RankReport::Message>> messages(actions.actions.size());
  for (const auto& [each, action] : received)
    messages[action].push_back({true, each.peer, each.bytes});
  for (std::size_t i = 0; i < actions.actions.size(); ++i) {
    for (const auto& each : actions.actions[i].sent)
      messages[i].push_back({false, each.peer, each.bytes});
  }
  return messages;
}

// The lower one of the two in the middle, of a part's actions of each kind.
std::array<Nanoseconds, 4> busyTimes(const RankActions& actions, std::size_t part) {
  std::array<std::vector<Nanoseconds>, 4> times;
  for (const scheduler::RankAction& action : actions.actions) {
    if (std::cmp_equal(actions.chunks[action.chunk].part, part))
      times[static_cast<std::size_t>(action.kind)].push_back(action.busy_ns);
  }
  std::array<Nanoseconds, 4> medians{};
  for (std::size_t kind = 0; kind < times.size(); ++kind) {
    if (times[kind].empty()) continue;
    const auto middle =
        times[kind].begin() + static_cast<std::ptrdiff_t>((times[kind].size() - 1) / 2);
    std::nth_element(times[kind].begin(), middle, times[kind].end());
    medians[kind] = *middle;
  }
  return medians;
}

// In steps of half a percent of the longest, which are said in few digits; down, so that of two
// plans as quick the rank's own is the better one.
void round(std::vector<Nanoseconds>& replays) {
  if (replays.empty()) return;
  const Nanoseconds longest = *std::max_element(replays.begin(), replays.end());
  const Nanoseconds unit = std::max<Nanoseconds>(1, longest / 200);
  for (Nanoseconds& ns : replays) ns -= ns % unit;
}

// With the copies that are quicker than their ops: those are the same for all microbatches. A plan
// of the rank's own may have others, and be made of what some of them may replay.
scheduler::TraceGraph plainStep(const scheduler::Trace& trace) {
  scheduler::TraceGraph step = scheduler::buildGraph(trace);
  scheduler::addValueCopies(trace, step);
  return step;
}

}  // namespace

RankReport RankPlanning::study(const scheduler::Trace& trace, const StepSchedule& own,
                               const Limits& limits) {
  RankReport report;
  report.versions = identity_.versions;
  report.rank = trace.group_rank;
  report.size = trace.group_size;
  report.global_rank = identity_.global_rank;
  report.host = identity_.host;
  report.host_processors = identity_.host_processors;
  report.budget_bytes = std::max<Bytes>(limits.cap_bytes, 0);
  report.asks_stages = limits.asks_stages;
  curves_.reset();
  try {
    describe(trace, own, limits, report);
  } catch (const std::exception& error) {
    report.unable = error.what();
  }
  if (!report.unable.empty()) curves_.reset();
  signature_ = trace.signature;
  report_ = report;
  return report;
}

void RankPlanning::describe(const scheduler::Trace& trace, const StepSchedule& own,
                            const Limits& limits, RankReport& report) {
  const RankActions actions = scheduler::recogniseActions(trace);
  report.unable = actions.refusal;
  if (!report.unable.empty()) return;
  const scheduler::TraceGraph step = plainStep(trace);
  scheduler::RankCurves curves(step, actions);
  const Bytes plain_bytes =
      scheduler::simulate(step.graph, scheduler::keepEverything(step.graph)).peak_bytes;
  report.short_of_memory = plain_bytes > limits.cap_bytes;
  report.own_peak_bytes = scheduler::simulate(own.step.graph, own.schedule).peak_bytes;
  report.fixed_bytes = curves.fixedBytes();
  report.tail_ns = actions.once_ns;
  scheduler::CurveOptions options;
  options.planner = limits.planner;
  options.planner_options.deadline = std::chrono::steady_clock::now() + limits.planning_time;
  options.planner_options.cancelled = limits.cancelled;
  if (!report.short_of_memory) options.points = 1;
  curves.trace(limits.cap_bytes, options);
  for (std::size_t part = 0; part < curves.parts(); ++part) {
    RankReport::ChunkClass& of = report.classes.emplace_back();
    of.weight_held_bytes = curves.weightHeldBytes(part);
    of.busy_ns = busyTimes(actions, part);
    for (const scheduler::MicrobatchPoint& each : curves.curve(part))
      of.points.push_back(each.point);
  }
  auto replays = scheduler::replaysOf(own.step.graph, scheduler::microbatchOps(own.step, actions),
                                      own.schedule);
  round(replays);
  for (std::size_t c = 0; c < actions.chunks.size(); ++c) {
    const scheduler::RankChunk& chunk = actions.chunks[c];
    report.chunks.push_back(
        {chunk.part, chunk.previous, replays[c], chunk.stage, chunk.microbatch});
  }
  auto messages = messagesOf(actions);
  for (std::size_t i = 0; i < actions.actions.size(); ++i) {
    const scheduler::RankAction& action = actions.actions[i];
    report.actions.push_back({action.kind, action.chunk, std::move(messages[i])});
  }
  curves_ = std::move(curves);
}

std::optional<StepSchedule> RankPlanning::follow(const JobPlan& plan, const scheduler::Trace& trace,
                                                 const StepSchedule& own,
                                                 const Limits& limits) const try {
  if (!curves_ || !studied(trace.signature) || planProblem(plan, *report_)) return std::nullopt;
  const JobPlan::Rank& mine = plan.ranks[static_cast<std::size_t>(report_->rank)];
  const RankActions actions = scheduler::recogniseActions(trace);
  if (!actions.refusal.empty() || actions.chunks.size() != mine.free.size()) return std::nullopt;
  std::vector<Nanoseconds> free_ns;
  for (const std::int32_t units : mine.free) free_ns.push_back(units * plan.free_unit_ns);
  const auto exposed = [&](const StepSchedule& of) {
    const auto chunks = scheduler::microbatchOps(of.step, actions);
    return scheduler::exposedNs(scheduler::replaysOf(of.step.graph, chunks, of.schedule), free_ns);
  };
  const auto peak = [](const StepSchedule& of) {
    return scheduler::simulate(of.step.graph, of.schedule).peak_bytes;
  };
  std::vector<StepSchedule> candidates = {own};
  candidates.front().planner += " + job";
  if (auto composed = mine.own ? std::nullopt : compose(mine.points, trace, actions);
      composed && peak(*composed) <= std::max(limits.cap_bytes, peak(own)))
    candidates.push_back(std::move(*composed));
  scheduler::PlannerOptions options;
  options.deadline = std::chrono::steady_clock::now() + limits.planning_time;
  options.cancelled = limits.cancelled;
  std::optional<StepSchedule> best;
  Nanoseconds least_ns = exposed(own);
  for (StepSchedule& each : candidates) {
    const auto chunks = scheduler::microbatchOps(each.step, actions);
    each.schedule = scheduler::exposeLess(each.step.graph, chunks, free_ns, limits.cap_bytes,
                                          each.schedule, options);
    if (const Nanoseconds ns = exposed(each); ns < least_ns) {
      least_ns = ns;
      best = std::move(each);
    }
  }
  return best;
} catch (const std::exception&) {
  return std::nullopt;
}

// Nothing where the step's microbatches are not those of the curves, or may not replay as those.
std::optional<StepSchedule> RankPlanning::compose(const std::vector<std::int32_t>& points,
                                                  const scheduler::Trace& trace,
                                                  const RankActions& actions) const {
  StepSchedule composed{plainStep(trace), {}, "job"};
  const scheduler::RankCurves here(composed.step, actions);
  if (!curves_->fit(here)) return std::nullopt;
  composed.schedule = curves_->compose(composed.step.graph, here, points);
  if (scheduler::validate(composed.step.graph, composed.schedule)) return std::nullopt;
  return composed;
}

}  // namespace ebbtide::plugin
