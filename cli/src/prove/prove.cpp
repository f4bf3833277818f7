#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "prove/proof.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

std::string whyNoUpdate(const ProofRun& run) {
  if (run.loadedTheModule()) {
    return "no update was seen, so nothing can be compared: no optimizer of torch.optim made a "
           "step. Ebbtide compares parameters after Optimizer.step()";
  }
  return noTorchSeen("update");
}

// After the run that was the last one, since it failed or made no update.
int tellFailure(const ProofRun& run, bool json, const RunFolder& folder) {
  const std::string problem = run.failed() ? run.ended() : whyNoUpdate(run);
  printProblem(run, run.failed(), problem, folder);
  if (json) printJson({{"verdict", "not judged"}, {"text", problem}});
  return kFailure;
}

int tell(const Verdict& verdict, bool json) {
  for (const std::string& note : verdict.notes) fmt::print(stderr, "ebbtide: {}\n", note);
  json ? printJson(verdict.toJson()) : fmt::print("{}\n", verdict.line());
  return verdict.kind == Verdict::Kind::kIdentical ? kFeasible : kFailure;
}

int prove(const Proof::Asked& asked, const Interrupts& interrupts) {
  Proof proof(asked, interrupts);
  const ProofRun& last = proof.run();
  if (interrupts.signal() != 0) return kFailure;  // which is raised again
  if (!proof.isComplete()) return tellFailure(last, asked.json, proof.folder());
  const Verdict verdict = judge(proof.evidence());
  for (const ProofRun& run : proof.runs()) {
    if (verdict.kind != Verdict::Kind::kIdentical && !run.end.succeeded()) {
      printOutput(run.output(), run.name, run.end.text(), proof.folder());
    }
  }
  return tell(verdict, asked.json);
}

}  // namespace

void addProve(CLI::App& app, int& exit_code) {
  auto asked = std::make_shared<Proof::Asked>();
  auto* verb = app.add_subcommand(
      "prove", "Train with and without a budget, and compare the parameters bit for bit");
  addCommand(*verb, *asked);
  verb->add_option("--steps", asked->updates, "updates of the parameters after which a run ends")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  addBudget(*verb, *asked, "as EBBTIDE_BUDGET takes it (default: that variable)");
  addRunOptions(*verb, *asked);
  verb->callback([asked, &exit_code] {
    exit_code = interruptibly(
        *asked, [&](const Interrupts& interrupts) { return prove(*asked, interrupts); });
  });
}

}  // namespace ebbtide::cli
