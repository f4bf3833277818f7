#include "job/job_planner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "ebbtide/scheduler/byte_size.hpp"
#include "ebbtide/scheduler/hidden_replays.hpp"
#include "ebbtide/scheduler/joined_ranks.hpp"
#include "ebbtide/scheduler/layer_taker.hpp"
#include "ebbtide/scheduler/pipeline_planner.hpp"
#include "ebbtide/scheduler/pipeline_simulator.hpp"
#include "job/job_findings.hpp"
#include "job/job_plan.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::PipelineAction;
using scheduler::PipelineJob;
using scheduler::StageChoices;

// Of each stage, for each microbatch.
using Replays = std::vector<std::vector<Nanoseconds>>;

constexpr std::int32_t kLastPoint = 1 << 20;
// Of the longest replays of a microbatch, twice: more is never needed, finer is of no use, and a
// plan says one of each microbatch.
constexpr std::int64_t kFreeUnits = 200;

scheduler::RankActions actionsOf(const RankReport& report) {
  scheduler::RankActions actions;
  for (const RankReport::Chunk& chunk : report.chunks) {
    actions.chunks.push_back({.part = chunk.chunk_class,
                              .previous = chunk.previous,
                              .stage = chunk.stage,
                              .microbatch = chunk.microbatch});
  }
  // A rank tells receives of one peer in the order in which it asked for them.
  std::int32_t message = 0;
  for (const RankReport::Action& action : report.actions) {
    scheduler::RankAction& next = actions.actions.emplace_back();
    next.kind = action.kind;
    next.chunk = action.chunk;
    next.busy_ns = report.classes[report.chunks[action.chunk].chunk_class]
                       .busy_ns[static_cast<std::size_t>(action.kind)];
    for (const RankReport::Message& each : action.messages)
      (each.receive ? next.received : next.sent).push_back({message++, each.peer, each.bytes});
  }
  actions.parts = static_cast<std::int32_t>(report.classes.size());
  actions.once_ns = report.tail_ns;
  return actions;
}

// What lives for the whole step counts once, to the first of a rank's stages.
std::vector<scheduler::PartCosts> costsOf(const RankReport& report) {
  std::vector<scheduler::PartCosts> costs;
  for (const RankReport::ChunkClass& of : report.classes) {
    costs.push_back({of.points, costs.empty() ? report.fixed_bytes : 0, of.weight_held_bytes});
  }
  return costs;
}

// 0: each rank has its own. Else as if all ranks shared so many: of each as much as one has on the
// host where they have the least.
std::int32_t sharedProcessors(const std::vector<RankReport>& reports) {
  struct Host {
    std::int64_t ranks = 0, processors = 0;  // of those that share any
  };
  std::map<std::string, Host> hosts;
  for (const RankReport& report : reports) {
    if (report.host_processors == 0) continue;
    Host& host = hosts[report.host];
    ++host.ranks;
    const std::int64_t before = host.processors;
    host.processors = before == 0 ? report.host_processors
                                  : std::min<std::int64_t>(before, report.host_processors);
  }
  Host least{1, 1};
  for (const auto& [name, host] : hosts) {
    if (host.processors * least.ranks < least.processors * host.ranks) least = host;
  }
  if (least.processors == least.ranks) return 0;
  const auto all = static_cast<std::int64_t>(reports.size());
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, all * least.processors / least.ranks));
}

class JobPlanner {
 public:
  JobPlanner(const std::vector<RankReport>& reports, const std::atomic<bool>* stop)
      : reports_(reports), stop_(stop) {
    std::vector<scheduler::RankActions> actions;
    std::vector<std::vector<scheduler::PartCosts>> costs;
    for (const RankReport& report : reports) {
      actions.push_back(actionsOf(report));
      costs.push_back(costsOf(report));
    }
    job_ = scheduler::joinRanks(actions, costs).job;
    for (std::size_t rank = 0; rank < reports.size(); ++rank)
      job_.budgets[rank] = reports[rank].budget_bytes;
    job_.processors = sharedProcessors(reports);
  }

  std::size_t stageCount() const { return job_.stages.size(); }

  JobPlanning tellStages() const {
    return {.why_not = "ranks are told their stages first, which their budgets depend on",
            .needed = false,
            .again = true,
            .findings = toText(stages())};
  }

  JobPlanning run() {
    JobPlan plan;
    const Replays own = ownReplays();
    plan.own_makespan_ns = makespanOf(own);
    const scheduler::PipelinePlan planned = scheduler::planPipeline(job_, {.stop = stop_});
    if (stop_ != nullptr && *stop_) return {.stopped = true};
    plan.bound_ns = planned.bound_ns;
    std::optional<std::string> help = helpFor(planned.shortfalls);
    const Replays chosen = replaysOf(planned.choices);
    const Nanoseconds makespan_ns = makespanOf(chosen);
    const bool keeps_own = !planned.feasible() || plan.own_makespan_ns <= makespan_ns;
    plan.makespan_ns = keeps_own ? plan.own_makespan_ns : makespan_ns;
    plan.method = keeps_own ? "own plans" : planned.method;
    const Nanoseconds most_free_ns = 2 * longestReplays(own);
    plan.free_unit_ns = std::max<Nanoseconds>(1, most_free_ns / kFreeUnits);
    const Replays free = freeOf(keeps_own ? own : chosen);
    if (keeps_own && free == none())
      return {.why_not = "the ranks' own plans make the quickest step that was found",
              .needed = false,
              .findings = std::move(help)};
    const auto simulated = scheduler::simulate(job_, planned.choices);
    for (std::size_t rank = 0; rank < reports_.size(); ++rank) {
      JobPlan::Rank& of = plan.ranks.emplace_back();
      of.own = keeps_own;
      of.peak_bytes = keeps_own ? reports_[rank].own_peak_bytes : simulated.ranks[rank].peak_bytes;
      of.points.resize(reports_[rank].chunks.size());
      of.free.resize(reports_[rank].chunks.size());
      forEachForward(rank, [&](const PipelineAction& action, std::int32_t chunk) {
        of.points[chunk] = planned.choices[action.stage][action.microbatch];
        const Nanoseconds free_ns = std::min(free[action.stage][action.microbatch], most_free_ns);
        of.free[chunk] = static_cast<std::int32_t>(free_ns / plan.free_unit_ns);
      });
    }
    return {.plan = toText(plan), .findings = std::move(help)};
  }

 private:
  JobFindings stages() const {
    JobFindings found;
    found.ranks.resize(reports_.size());
    for (std::size_t stage = 0; stage < job_.stages.size(); ++stage)
      found.ranks[job_.stages[stage].rank].stages.push_back(static_cast<std::int32_t>(stage));
    return found;
  }

  // Of ranks whose own plans do not fit either: those are not made of microbatches that are alike,
  // and may reach less. Nothing where there is no such rank.
  std::optional<std::string> helpFor(
      const std::vector<scheduler::RankShortfall>& shortfalls) const {
    if (shortfalls.empty()) return std::nullopt;
    JobFindings found = stages();
    bool any = false;
    const auto recomputed = scheduler::simulate(job_, scheduler::uniformChoices(job_, kLastPoint));
    for (const scheduler::RankShortfall& shortfall : shortfalls) {
      JobFindings::Rank& of = found.ranks[shortfall.rank];
      const Bytes own_bytes = reports_[shortfall.rank].own_peak_bytes;
      if (own_bytes <= shortfall.budget_bytes) continue;
      any = true;
      of.excess_bytes = std::min(own_bytes, shortfall.needed_bytes) - shortfall.budget_bytes;
      const auto taker =
          scheduler::layerTaker(job_, recomputed, shortfall.rank, shortfall.needed_bytes);
      if (taker.rank == scheduler::kNone) continue;
      of.taker = reports_[taker.rank].global_rank;
      of.spare_bytes = taker.spare_bytes;
    }
    return any ? std::optional(toText(found)) : std::nullopt;
  }

  // An action of the job and the chunk of the rank that it is of.
  template <typename Visit>
  void forEachForward(std::size_t rank, const Visit& visit) const {
    for (std::size_t i = 0; i < job_.order[rank].size(); ++i) {
      const PipelineAction& action = job_.order[rank][i];
      if (action.kind == PipelineAction::Kind::kForward)
        visit(action, reports_[rank].actions[i].chunk);
    }
  }

  Replays none() const {
    return Replays(job_.stages.size(),
                   std::vector<Nanoseconds>(static_cast<std::size_t>(job_.microbatches), 0));
  }

  Replays ownReplays() const {
    Replays replays = none();
    for (std::size_t rank = 0; rank < reports_.size(); ++rank) {
      forEachForward(rank, [&](const PipelineAction& action, std::int32_t chunk) {
        replays[action.stage][action.microbatch] = reports_[rank].chunks[chunk].own_replay_ns;
      });
    }
    return replays;
  }

  Replays replaysOf(const StageChoices& choices) const {
    Replays replays = none();
    for (std::size_t stage = 0; stage < choices.size(); ++stage) {
      const auto& points = job_.profileOf(static_cast<std::int32_t>(stage)).points;
      for (std::size_t m = 0; m < choices[stage].size(); ++m)
        replays[stage][m] = points[choices[stage][m]].recompute_ns;
    }
    return replays;
  }

  Nanoseconds longestReplays(const Replays& own) const {
    Nanoseconds longest = 0;
    for (const auto& profile : job_.profiles)
      longest = std::max(longest, profile.points.back().recompute_ns);
    for (const auto& of_stage : own)
      for (const Nanoseconds ns : of_stage) longest = std::max(longest, ns);
    return longest;
  }

  // Where ranks share processors a wait of one is work of another: the simulator knows.
  Nanoseconds makespanOf(const Replays& replays) const {
    if (job_.processors == 0) return scheduler::replayedStep(job_, replays).makespan_ns;
    PipelineJob job = job_;
    job.profiles.clear();
    StageChoices choices;
    for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
      scheduler::StageProfile profile = job_.profileOf(static_cast<std::int32_t>(stage));
      profile.points.clear();
      std::vector<std::int32_t>& of = choices.emplace_back();
      for (const Nanoseconds ns : replays[stage]) {  // bytes do not matter here
        of.push_back(static_cast<std::int32_t>(profile.points.size()));
        profile.points.push_back({0, 0, 0, ns});
      }
      job.stages[stage].profile = static_cast<std::int32_t>(job.profiles.size());
      job.profiles.push_back(std::move(profile));
    }
    return scheduler::simulate(job, choices).makespan_ns;
  }

  Replays freeOf(const Replays& replays) const {
    return job_.processors == 0 ? scheduler::replayedStep(job_, replays).free_ns : none();
  }

  const std::vector<RankReport>& reports_;
  const std::atomic<bool>* const stop_;
  PipelineJob job_;
};

}  // namespace

JobPlanning planJob(const std::vector<RankReport>& reports, const std::atomic<bool>* stop) {
  const auto any = [&reports](bool RankReport::*what) {
    return std::any_of(reports.begin(), reports.end(), [&](const auto& r) { return r.*what; });
  };
  if (any(&RankReport::asks_stages)) return JobPlanner(reports, stop).tellStages();
  if (!any(&RankReport::short_of_memory))
    return {.why_not = "every rank's step fits its budget", .needed = false};
  return JobPlanner(reports, stop).run();
}

std::optional<std::vector<std::int32_t>> stagesOf(const std::vector<RankReport>& reports) try {
  std::set<std::int32_t> named;
  for (const RankReport& report : reports) {
    for (const RankReport::Chunk& chunk : report.chunks) named.insert(chunk.stage);
  }
  if (!named.empty() && !named.contains(scheduler::kNone))
    return std::vector(named.begin(), named.end());
  std::vector<std::int32_t> numbered(JobPlanner(reports, nullptr).stageCount());
  std::iota(numbered.begin(), numbered.end(), 0);
  return numbered;
} catch (const std::invalid_argument&) {
  return std::nullopt;
}

}  // namespace ebbtide::plugin
