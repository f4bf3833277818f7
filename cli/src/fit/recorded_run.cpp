#include "fit/recorded_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "ebbtide/scheduler/simulator.hpp"
#include "ebbtide/scheduler/spilling_floor.hpp"
#include "shown_values.hpp"
#include "text_file.hpp"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

// 12 of "trace-0-12" for the rank 0; 0: of another rank.
std::int64_t stepOf(const std::string& name, int rank) {
  const std::string prefix = fmt::format("trace-{}-", rank);
  std::int64_t step = 0;
  if (name.starts_with(prefix)) {
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
  }
  return step;
}

RecordedStep readStep(const fs::path& path, const scheduler::GraphOptions& options) {
  try {
    RecordedStep step{scheduler::traceFromJson(readText(path)), {}, 0};
    step.graph = scheduler::buildGraph(step.trace, options);
    step.plain_peak_bytes =
        scheduler::simulate(step.graph.graph, scheduler::keepEverything(step.graph.graph))
            .peak_bytes;
    return step;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(path.string() + ": " + error.what());
  }
}

// Of a rank's recorded steps, in their order.
std::vector<std::pair<std::int64_t, fs::path>> tracesOf(const RecordedRun& run, int rank) {
  std::vector<std::pair<std::int64_t, fs::path>> files;
  for (const auto& entry : fs::directory_iterator(RecordedRun::tracesIn(run.folder))) {
    const std::int64_t step = stepOf(entry.path().stem().native(), rank);
    if (step > 0) files.emplace_back(step, entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Of our refusals, of an allocation that failed, torch's and Python's own included.
constexpr std::array<std::string_view, 5> kWordsOfMemory = {"out of memory", "OutOfMemoryError",
                                                            "too small for this program",
                                                            "can't allocate memory", "MemoryError"};

bool tellsOfMemory(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    for (const std::string_view words : kWordsOfMemory)
      if (line.find(words) != std::string::npos) return true;
  }
  return false;
}

// What the training computes of each, where all that nothing reads may be on the host. 0: none was
// recorded.
scheduler::Bytes floorOfLaterSteps(const RecordedRun& run, int rank) {
  scheduler::Bytes most = 0;
  for (const auto& [number, path] : tracesOf(run, rank)) {
    if (number == 1) continue;
    const RecordedStep step = readStep(path, {.unread_may_go = true});
    most = std::max(most, scheduler::spillingFloor(step.graph.graph).bytes);
  }
  return most;
}

}  // namespace

std::int64_t RecordedRun::stepsOfAll() const {
  std::int64_t fewest = reports.empty() ? 0 : INT64_MAX;
  for (const RunReport& report : reports) fewest = std::min(fewest, report.steps.count);
  return fewest;
}

bool RecordedRun::failed() const {
  const bool all_ranks =
      !reports.empty() && static_cast<std::int64_t>(reports.size()) >= reports[0].world_size;
  return !end.succeeded() && !(all_ranks && stepsOfAll() >= asked_steps);
}

bool RecordedRun::heldItsBudget() const {
  return !failed() && stepsOfAll() > 0 &&
         std::all_of(reports.begin(), reports.end(), [](const RunReport& report) {
           return report.budget.violations.value_or(1) == 0;
         });
}

bool RecordedRun::failedForOtherReasons() const {
  const bool over = std::any_of(reports.begin(), reports.end(), [](const RunReport& report) {
    return report.budget.violations.value_or(0) > 0;
  });
  return failed() && !over && !tellsOfMemory(output());
}

std::string RecordedRun::summary() const {
  const std::int64_t steps = stepsOfAll();
  return fmt::format("{} run: {} step{} on {} rank{}, {}", name, steps, steps == 1 ? "" : "s",
                     reports.size(), reports.size() == 1 ? "" : "s", shownSeconds(end.seconds));
}

const RunReport* RecordedRun::neediest() const {
  const auto most =
      std::max_element(reports.begin(), reports.end(), [](const RunReport& a, const RunReport& b) {
        const auto needs = [](const RunReport& report) {
          return std::tuple(report.budget.smallest_feasible_bytes.value_or(0),
                            report.peaks.plain_bytes.value_or(0));
        };
        return needs(a) < needs(b);
      });
  return most == reports.end() ? nullptr : &*most;
}

RecordedRun readRecordedRun(std::string name, std::string folder, RunEnd end,
                            std::int64_t asked_steps) {
  RecordedRun run{{std::move(name), std::move(folder), end}, asked_steps, {}};
  run.reports = readRunReports(RecordedRun::reportsIn(run.folder));
  return run;
}

std::optional<RecordedStep> largestStep(const RecordedRun& run, int rank) {
  auto files = tracesOf(run, rank);
  std::optional<RecordedStep> largest;
  if (files.size() > 1 && files.front().first == 1) files.erase(files.begin());
  for (const auto& [number, path] : files) {
    RecordedStep step = readStep(path, {.first_step = number == 1});
    if (!largest || step.plain_peak_bytes >= largest->plain_peak_bytes) largest = std::move(step);
  }
  return largest;
}

std::vector<RunReport> reportsOfLaterSteps(const RecordedRun& run) {
  std::vector<RunReport> reports = run.reports;
  for (RunReport& report : reports) {
    const scheduler::Bytes floor = floorOfLaterSteps(run, report.rank);
    if (floor == 0 || !report.budget.needed_bytes) continue;
    report.budget.needed_bytes =
        std::min(*report.budget.needed_bytes, floor + report.budget.margins.unplanned_bytes);
  }
  return reports;
}

}  // namespace ebbtide::cli
