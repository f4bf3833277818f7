#include "fit/fit_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

// By then a budget that is too small has been refused, and a plan is in use.
constexpr std::int64_t kStepsWithin = 8;

Environment checked(Environment own) {
  refuseTurnedOff(own, "nothing is measured");
  return own;
}

std::string folderName(std::string run) {
  std::replace(run.begin(), run.end(), ' ', '-');
  return run;
}

}  // namespace

Environment fitEnvironment(const Environment& own, const std::string& folder,
                           const std::string& budget, std::int64_t steps) {
  Environment environment = own;
  // Files of the user's own runs stay as they are; without our allocator nothing is measured.
  for (const char* name : {"EBBTIDE_PROOF", "EBBTIDE_BUDGET", "EBBTIDE_PERFETTO",
                           "EBBTIDE_TEXTFILE", "EBBTIDE_ALLOCATOR"})
    unset(environment, name);
  if (!budget.empty()) {
    set(environment, "EBBTIDE_BUDGET", budget);
    unset(environment, "EBBTIDE_ON_INFEASIBLE");
  }
  set(environment, "EBBTIDE", "1");
  set(environment, "EBBTIDE_REPORT", RecordedRun::reportsIn(folder) + "/report-{rank}.json");
  set(environment, "EBBTIDE_TRACE_DIR", RecordedRun::tracesIn(folder));
  set(environment, "EBBTIDE_FIT", fmt::format("{}:{}", folder, steps));
  return environment;
}

FitRuns::FitRuns(Asked asked, const Interrupts& interrupts)
    : asked_(std::move(asked)),
      interrupts_(interrupts),
      own_(checked(ownEnvironment())),
      budget_(asked_.budget.empty() ? valueOf(own_, "EBBTIDE_BUDGET") : asked_.budget),
      folder_(asked_.kept, "fit") {}

std::string FitRuns::planner() const {
  const std::string given = valueOf(own_, "EBBTIDE_PLANNER");
  return given.empty() ? "auto" : given;
}

RecordedRun FitRuns::measure(const std::vector<std::string>& command, const std::string& of) const {
  return runOnce(command, of.empty() ? "measured" : "measured " + of, "", asked_.steps);
}

RecordedRun FitRuns::inBudget(const std::vector<std::string>& command, const std::string& name,
                              const std::string& budget) const {
  return runOnce(command, name, budget, std::max(asked_.steps, kStepsWithin));
}

RecordedRun FitRuns::runOnce(const std::vector<std::string>& command, const std::string& name,
                             const std::string& budget, std::int64_t steps) const {
  const std::string folder = folder_.makeFolderOf(folderName(name));
  fs::create_directory(RecordedRun::reportsIn(folder));
  fs::create_directory(RecordedRun::tracesIn(folder));
  const RunEnd end = watchedRun({.words = command,
                                 .environment = fitEnvironment(own_, folder, budget, steps),
                                 .output = RecordedRun::outputIn(folder)},
                                asked_.limit(), interrupts_);
  RecordedRun run = readRecordedRun(name, folder, end, steps);
  if (interrupts_.signal() == 0) fmt::print(stderr, "ebbtide: {}\n", run.summary());
  return run;
}

}  // namespace ebbtide::cli
