#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "given_seconds.hpp"
#include "given_text.hpp"
#include "prove/proof.hpp"
#include "shell/command_words.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

struct Arguments {
  Proof::Asked asked;
  double limit_seconds = 0;  // 0: none
  bool json = false;
};

void printJson(const nlohmann::json& tree) {
  fmt::print("{}\n", tree.dump(1, ' ', true, nlohmann::json::error_handler_t::replace));
}

std::string whyNoUpdate(const ProofRun& run) {
  if (run.loadedTheModule()) {
    return "no update was seen, so nothing can be compared: no optimizer of torch.optim made a "
           "step. Ebbtide compares parameters after Optimizer.step()";
  }
  return "no update was seen: no process of the command imported torch with Ebbtide beside it. "
         "Install Ebbtide for that Python, and do not set TORCH_DEVICE_BACKEND_AUTOLOAD=0";
}

// After the run that was the last one, since it failed or made no update.
int tellFailure(const ProofRun& run, const Arguments& arguments, const RunFolder& folder) {
  const std::string problem =
      run.failed() ? fmt::format("the {} run {}", run.name, run.end.text()) : whyNoUpdate(run);
  printOutput(run.output(), run.name, run.end.text(), folder);
  if (!run.failed()) fmt::print(stderr, "ebbtide: {}\n", problem);
  if (arguments.json) printJson({{"verdict", "not judged"}, {"text", problem}});
  return kFailure;
}

int tell(const Verdict& verdict, bool json) {
  for (const std::string& note : verdict.notes) fmt::print(stderr, "ebbtide: {}\n", note);
  json ? printJson(verdict.toJson()) : fmt::print("{}\n", verdict.line());
  return verdict.kind == Verdict::Kind::kIdentical ? kFeasible : kFailure;
}

int runAndJudge(const Arguments& arguments, const Interrupts& interrupts) {
  Proof proof(arguments.asked, interrupts);
  const ProofRun& last = proof.run();
  if (interrupts.signal() != 0) return kFailure;  // which is raised again
  if (!proof.isComplete()) return tellFailure(last, arguments, proof.folder());
  const Verdict verdict = judge(proof.evidence());
  for (const ProofRun& run : proof.runs()) {
    if (verdict.kind != Verdict::Kind::kIdentical && !run.end.succeeded()) {
      printOutput(run.output(), run.name, run.end.text(), proof.folder());
    }
  }
  return tell(verdict, arguments.json);
}

int prove(Arguments arguments) {
  for (std::string& word : arguments.asked.command) word = unguarded(word);
  if (arguments.limit_seconds > 0) {
    arguments.asked.limit = std::chrono::seconds(std::lround(std::ceil(arguments.limit_seconds)));
  }
  Interrupts interrupts;
  const int exit_code = runAndJudge(arguments, interrupts);
  interrupts.raiseNoted();
  return exit_code;
}

}  // namespace

void addProve(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  Proof::Asked& asked = arguments->asked;
  auto* verb = app.add_subcommand(
      "prove", "Train with and without a budget, and compare the parameters bit for bit");
  verb->add_option("COMMAND", asked.command,
                   "what trains, after the options and --: python train.py, or torchrun ...")
      ->required()
      ->type_name("FILE");
  verb->add_option("--steps", asked.updates, "updates of the parameters after which a run ends")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  verb->add_option("--budget", asked.budget, "as EBBTIDE_BUDGET takes it (default: that variable)")
      ->check(givenText())
      ->type_name("SIZE");
  verb->add_option("--timeout", arguments->limit_seconds, "of one run (default: none)")
      ->check(givenSeconds(0, 1e7))
      ->type_name("SECONDS");
  verb->add_option("--keep", asked.kept, "a new folder for what the runs print and leave")
      ->check(givenText())
      ->type_name("FOLDER");
  verb->add_flag("--json", arguments->json, "one JSON document on stdout");
  verb->callback([arguments, &exit_code] { exit_code = prove(*arguments); });
}

}  // namespace ebbtide::cli
