#include "prove/proof_environment.hpp"

#include <stdexcept>

#include "launch/command_run.hpp"

namespace ebbtide::cli {
namespace {

constexpr const char* kBudget = "EBBTIDE_BUDGET";
constexpr const char* kProof = "EBBTIDE_PROOF";
constexpr const char* kReport = "EBBTIDE_REPORT";

}  // namespace

Environment plainEnvironment(const Environment& own, const std::string& proof) {
  Environment plain = own;
  std::erase_if(plain, [](const std::string& entry) { return entry.starts_with("EBBTIDE"); });
  set(plain, kProof, proof);
  return plain;
}

Environment budgetEnvironment(const Environment& own, const std::string& budget,
                              const std::string& proof, const std::string& report) {
  if (budget.empty() && valueOf(own, kBudget).empty()) {
    throw std::invalid_argument(
        "there is no budget to prove. Type: ebbtide prove --budget 80% -- COMMAND, or set "
        "EBBTIDE_BUDGET");
  }
  refuseTurnedOff(own, "no budget holds");
  Environment bounded = own;
  if (!budget.empty()) set(bounded, kBudget, budget);
  set(bounded, kReport, report);
  set(bounded, kProof, proof);
  return bounded;
}

}  // namespace ebbtide::cli
