#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "ebbtide/scheduler/layer_taker.hpp"
#include "ebbtide/scheduler/pipeline_planner.hpp"
#include "ebbtide/scheduler/pipeline_simulator.hpp"
#include "given_text.hpp"
#include "job_file.hpp"
#include "pipeline_svg.hpp"
#include "pipeline_trace.hpp"
#include "search_limits.hpp"
#include "svg_text.hpp"
#include "text_file.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

struct Arguments {
  std::string path, svg, trace;
  SearchLimits limits;
  bool json = false;
};

// One way to run the step.
struct Setting {
  std::string name;
  PipelineSimulation simulation;
  bool feasible = false;  // every rank within its budget

  double seconds() const { return static_cast<double>(simulation.makespan_ns) / 1e9; }
  Nanoseconds sum(Nanoseconds RankSimulation::*part) const {
    Nanoseconds sum = 0;
    for (const RankSimulation& rank : simulation.ranks) sum += rank.*part;
    return sum;
  }
  double recomputeSeconds() const {
    return static_cast<double>(sum(&RankSimulation::recompute_ns)) / 1e9;
  }
  double hiddenShare() const {
    const Nanoseconds all = sum(&RankSimulation::recompute_ns);
    return all > 0 ? static_cast<double>(sum(&RankSimulation::hidden_ns)) / static_cast<double>(all)
                   : 0;
  }
  double bubbleShare() const {
    const double all =
        static_cast<double>(simulation.makespan_ns) * static_cast<double>(simulation.ranks.size());
    return all > 0 ? static_cast<double>(sum(&RankSimulation::idle_ns)) / all : 0;
  }
};

struct Result {
  std::vector<Setting> settings;  // kept, recomputed, the best for all alike if any fits, planned
  PipelinePlan plan;
  double seconds = 0;  // that planning took

  const PipelineSimulation& kept() const { return settings[0].simulation; }
  const PipelineSimulation& recomputed() const { return settings[1].simulation; }
  const PipelineSimulation& planned() const { return settings.back().simulation; }
};

Setting settingOf(const PipelineJob& job, const std::string& name, const StageChoices& choices) {
  Setting setting{name, simulate(job, choices), true};
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    setting.feasible =
        setting.feasible && setting.simulation.ranks[rank].peak_bytes <= job.budgets[rank];
  }
  return setting;
}

// What users do today: the same for all microbatches of all stages, replays on demand.
std::optional<Setting> bestUniform(const PipelineJob& job) {
  std::size_t points = 0;
  for (const StageProfile& profile : job.profiles) {
    points = std::max(points, profile.points.size());
  }
  std::optional<Setting> best;
  for (std::size_t point = 0; point < points; ++point) {
    Setting setting =
        settingOf(job, "best for all alike", uniformChoices(job, static_cast<std::int32_t>(point)));
    if (!setting.feasible) continue;
    if (!best || setting.simulation.makespan_ns < best->simulation.makespan_ns) best = setting;
  }
  return best;
}

Result planAndJudge(const PipelineJob& job, const SearchLimits& limits) {
  Result result;
  const auto start = std::chrono::steady_clock::now();
  result.plan = planPipeline(job, {limits.deadline(), limits.seed});
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  PipelineJob on_demand = job;
  on_demand.replays_ahead = false;
  result.settings.push_back(settingOf(job, "everything kept", uniformChoices(job, 0)));
  result.settings.push_back(settingOf(on_demand, "all recomputed", uniformChoices(job, 1 << 20)));
  if (auto best = bestUniform(on_demand)) result.settings.push_back(*best);
  result.settings.push_back(settingOf(job, "planned", result.plan.choices));
  // The planner knows of no shared processors.
  const bool same_time =
      job.processors > 0 || result.planned().makespan_ns == result.plan.makespan_ns;
  if (result.settings.back().feasible != result.plan.feasible() || !same_time) {
    throw std::logic_error("the plan is not what the simulator finds");
  }
  return result;
}

std::string adviceFor(const PipelineJob& job, const Result& result,
                      const RankShortfall& shortfall) {
  const LayerTaker taker =
      layerTaker(job, result.recomputed(), shortfall.rank, shortfall.needed_bytes);
  if (taker.rank == kNone) return "no neighbour has memory to spare";
  if (!taker.could) {
    return fmt::format("rank {} has only {} bytes to spare", taker.rank, taker.spare_bytes);
  }
  return fmt::format("rank {} could take a layer: with all recomputed it leaves {} bytes free",
                     taker.rank, taker.spare_bytes);
}

nlohmann::json toJson(const Setting& setting) {
  return {{"name", setting.name},
          {"feasible", setting.feasible},
          {"seconds", setting.seconds()},
          {"bubble_share", setting.bubbleShare()},
          {"recompute_seconds", setting.recomputeSeconds()},
          {"hidden_share", setting.hiddenShare()}};
}

void printJson(const JobFile& file, const Result& result) {
  const PipelineJob& job = file.job;
  nlohmann::json document = {{"schedule", file.schedule},
                             {"ranks", job.ranks()},
                             {"data_parallel", file.data_parallel},
                             {"stages", job.stages.size()},
                             {"microbatches", job.microbatches},
                             {"planning_seconds", result.seconds},
                             {"method", result.plan.method},
                             {"feasible", result.plan.feasible()},
                             {"bound_seconds", static_cast<double>(result.plan.bound_ns) / 1e9}};
  if (!file.notes.empty()) document["notes"] = file.notes;
  for (const Setting& setting : result.settings) document["settings"].push_back(toJson(setting));
  for (std::size_t rank = 0; rank < job.ranks(); ++rank) {
    const RankSimulation& at = result.planned().ranks[rank];
    document["per_rank"].push_back(
        {{"rank", rank},
         {"budget_bytes", job.budgets[rank]},
         {"peak_bytes", at.peak_bytes},
         {"peak_bytes_kept", result.kept().ranks[rank].peak_bytes},
         {"busy_seconds", static_cast<double>(at.busy_ns) / 1e9},
         {"recompute_seconds", static_cast<double>(at.recompute_ns) / 1e9},
         {"hidden_seconds", static_cast<double>(at.hidden_ns) / 1e9},
         {"idle_seconds", static_cast<double>(at.idle_ns) / 1e9}});
  }
  for (std::size_t stage = 0; stage < job.stages.size(); ++stage) {
    const auto& points = job.profiles[job.stages[stage].profile].points;
    nlohmann::json of_microbatch;
    for (const std::int32_t point : result.plan.choices[stage]) {
      of_microbatch.push_back(points[point].recompute_ns);
    }
    document["recompute_ns_of_stage"].push_back(of_microbatch);
  }
  document["shortfalls"] = nlohmann::json::array();
  for (const RankShortfall& shortfall : result.plan.shortfalls) {
    document["shortfalls"].push_back({{"rank", shortfall.rank},
                                      {"budget_bytes", shortfall.budget_bytes},
                                      {"needed_bytes", shortfall.needed_bytes},
                                      {"needed_at_most", !shortfall.is_least},
                                      {"advice", adviceFor(job, result, shortfall)}});
  }
  fmt::print("{}\n", document.dump(1));
}

// Ranks that follow each other with the same figures are one line.
void printRanks(const PipelineJob& job, const Result& result) {
  Bytes most = 0;
  for (const Bytes budget : job.budgets) most = std::max(most, budget);
  const ByteUnit unit = byteUnit(most);
  const auto size = [&](Bytes bytes) { return static_cast<double>(bytes) / unit.bytes; };
  const auto figures = [&](std::size_t rank) {
    const RankSimulation& at = result.planned().ranks[rank];
    return fmt::format("{:>9.2f} {:>9.2f} {:>9.2f} {:>12.4g} {:>9.4g} {:>9.4g}",
                       size(job.budgets[rank]), size(result.kept().ranks[rank].peak_bytes),
                       size(at.peak_bytes), static_cast<double>(at.recompute_ns) / 1e9,
                       static_cast<double>(at.hidden_ns) / 1e9,
                       static_cast<double>(at.idle_ns) / 1e9);
  };
  fmt::print("\n{:<9} {:>9} {:>9} {:>9} {:>12} {:>9} {:>9}   {}, seconds\n", "rank", "budget",
             "kept", "planned", "recompute", "hidden", "idle", unit.name);
  for (std::size_t rank = 0; rank < job.ranks();) {
    const std::string row = figures(rank);
    std::size_t end = rank + 1;
    while (end < job.ranks() && figures(end) == row) ++end;
    fmt::print("{:<9} {}\n",
               end == rank + 1 ? std::to_string(rank) : fmt::format("{}-{}", rank, end - 1), row);
    rank = end;
  }
}

void printText(const JobFile& file, const Result& result) {
  const PipelineJob& job = file.job;
  fmt::print("{}: {} ranks{}, {} stages, {} microbatches; planned in {:.2f} s\n\n", file.schedule,
             job.ranks(),
             file.data_parallel > 1 ? fmt::format(" times {} alike", file.data_parallel) : "",
             job.stages.size(), job.microbatches, result.seconds);
  for (const std::string& note : file.notes) fmt::print("note: {}\n\n", note);
  fmt::print("{:<20} {:>10} {:>8} {:>12} {:>8}\n", "", "step, s", "bubbles", "recompute, s",
             "hidden");
  for (const Setting& setting : result.settings) {
    fmt::print("{:<20} {:>10.4g} {:>7.1f}% {:>12.4g} {:>7.0f}%{}\n", setting.name,
               setting.seconds(), 100 * setting.bubbleShare(), setting.recomputeSeconds(),
               100 * setting.hiddenShare(), setting.feasible ? "" : "   over the budget");
  }
  fmt::print("{:<20} {:>10.4g}\n", "no plan is below",
             static_cast<double>(result.plan.bound_ns) / 1e9);
  printRanks(job, result);
  for (const RankShortfall& shortfall : result.plan.shortfalls) {
    fmt::print("\nrank {} needs {}{} bytes{}; its budget is {}. {}\n", shortfall.rank,
               shortfall.is_least ? "" : "at most ", shortfall.needed_bytes,
               shortfall.is_least ? ", whatever it recomputes" : "", shortfall.budget_bytes,
               adviceFor(job, result, shortfall));
  }
}

int run(const Arguments& arguments) {
  const std::string text = readText(arguments.path);
  const auto named = [&](const auto& work) {
    try {
      return work();
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(arguments.path + ": " + error.what());
    }
  };
  const JobFile file = named([&] {
    return jobFromToml(text, std::filesystem::path(arguments.path).parent_path().string());
  });
  const Result result = named([&] { return planAndJudge(file.job, arguments.limits); });
  arguments.json ? printJson(file, result) : printText(file, result);
  if (!arguments.svg.empty()) {
    writeText(arguments.svg, toSvg(file.job, result.planned(), "Planned step: " + arguments.path));
  }
  if (!arguments.trace.empty()) writeText(arguments.trace, toTrace(file.job, result.planned()));
  return result.plan.feasible() ? kFeasible : kInfeasible;
}

}  // namespace

void addSimulate(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  // Planned within 10 s, also on a machine that has more to do.
  arguments->limits.deadline_seconds = 8;
  auto* verb = app.add_subcommand("simulate", "Plan a pipelined job and simulate its step");
  verb->add_option("JOB", arguments->path, "TOML: stages, schedule, budgets (docs/pipelines.md)")
      ->required()
      ->type_name("FILE");
  arguments->limits.addTo(*verb, "how long to look for a better plan");
  verb->add_flag("--json", arguments->json, "one JSON document on stdout");
  verb->add_option("--svg", arguments->svg, "draw the planned step here")
      ->check(givenText())
      ->type_name("FILE");
  verb->add_option("--trace", arguments->trace, "write it here as a trace that Perfetto opens")
      ->check(givenText())
      ->type_name("FILE");
  verb->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace ebbtide::cli
