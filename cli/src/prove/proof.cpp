#include "prove/proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ebbtide/scheduler/rank_budgets.hpp"
#include "shown_values.hpp"

namespace ebbtide::cli {
namespace {

struct Kind {
  const char *name, *folder;
  bool plain;
};

// The budget between the plain runs: one that cannot be read, or is too small, shows early, and a
// machine that becomes slower does so for both.
constexpr Kind kKinds[] = {
    {"plain", "plain", true}, {"budget", "budget", false}, {"second plain", "plain-again", true}};

// Throws where there is no budget, or none that can be meant: before anything runs.
Environment checked(Environment own, const std::string& budget) {
  const Environment bounded = budgetEnvironment(own, budget, "", "");
  const std::string name = budget.empty() ? "EBBTIDE_BUDGET" : "--budget";
  scheduler::RankBudgets::parse(name, valueOf(bounded, "EBBTIDE_BUDGET")).refuseFewBytes(name);
  return own;
}

}  // namespace

bool ProofRun::failed() const {
  const bool all_updates = !logs.empty() && std::all_of(logs.begin(), logs.end(),
                                                        [](const auto& log) { return log.ended; });
  return !end.succeeded() && !all_updates;
}

std::string ProofRun::summary() const {
  return fmt::format("{} run: {} updates in {} process{}, {}", name, updatesOfAll(logs),
                     logs.size(), logs.size() == 1 ? "" : "es", shownSeconds(end.seconds));
}

Proof::Proof(Asked asked, const Interrupts& interrupts)
    : asked_(std::move(asked)),
      interrupts_(interrupts),
      own_(checked(ownEnvironment(), asked_.budget)),
      folder_(asked_.kept, "prove") {}

const ProofRun& Proof::run() {
  for (const auto& [name, folder, plain] : kKinds) {
    runs_.push_back(runOnce(name, folder_.makeFolderOf(folder), plain));
    const ProofRun& done = runs_.back();
    if (interrupts_.signal() != 0) break;
    fmt::print(stderr, "ebbtide: {}\n", done.summary());
    if (done.failed() || done.logs.empty()) break;
  }
  return runs_.back();
}

ProofRun Proof::runOnce(const std::string& name, const std::string& folder, bool plain) const {
  ProofRun run{{.name = name, .folder = folder, .end = {}}, {}};
  const std::string proof = fmt::format("{}:{}", folder, asked_.updates);
  const std::string report = folder + "/report-{rank}.json";
  run.end =
      watchedRun({.words = asked_.command,
                  .environment = plain ? plainEnvironment(own_, proof)
                                       : budgetEnvironment(own_, asked_.budget, proof, report),
                  .output = run.output()},
                 asked_.limit(), interrupts_);
  run.logs = readProofLogs(folder);
  return run;
}

Evidence Proof::evidence() const {
  return {.plain = runs_[0].logs,
          .again = runs_[2].logs,
          .bounded = runs_[1].logs,
          .reports = readRunReports(runs_[1].folder),
          .asked_updates = asked_.updates};
}

}  // namespace ebbtide::cli
