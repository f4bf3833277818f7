#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "doctor/machine_findings.hpp"
#include "doctor/python_findings.hpp"
#include "given_text.hpp"
#include "verbs.hpp"

namespace ebbtide::cli {
namespace {

struct Arguments {
  std::string python;
  bool json = false;
};

void printText(const Findings& findings) {
  for (const Finding& finding : findings) {
    fmt::print("{:<8} {:<14} {}\n", nameOf(finding.verdict), finding.name, finding.what);
    if (!finding.fix.empty()) fmt::print("{:<8} {:<14} -> {}\n", "", "", finding.fix);
  }
}

void printJson(const Findings& findings, bool works) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Finding& finding : findings) {
    rows.push_back({{"name", finding.name},
                    {"verdict", nameOf(finding.verdict)},
                    {"what", finding.what},
                    {"fix", finding.fix.empty() ? nlohmann::json() : nlohmann::json(finding.fix)}});
  }
  const nlohmann::json all = {{"works", works}, {"findings", rows}};
  fmt::print("{}\n", all.dump(1, ' ', true, nlohmann::json::error_handler_t::replace));
}

int doctor(const Arguments& arguments) {
  auto [findings, site_packages] = pythonFindings(arguments.python);
  for (Finding& finding : machineFindings(site_packages)) findings.push_back(std::move(finding));
  const bool works = std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Finding::Verdict::kProblem;
  });
  arguments.json ? printJson(findings, works) : printText(findings);
  return works ? kFeasible : kFailure;
}

}  // namespace

void addDoctor(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("doctor", "What works here, what does not, and the fix");
  verb->add_option("--python", arguments->python,
                   "the Python that trains (default: where a wheel put this program, else of "
                   "VIRTUAL_ENV, else of .venv here, else python3)")
      ->check(givenText())
      ->type_name("FILE");
  verb->add_flag("--json", arguments->json, "one JSON document on stdout");
  verb->callback([arguments, &exit_code] { exit_code = doctor(*arguments); });
}

}  // namespace ebbtide::cli
