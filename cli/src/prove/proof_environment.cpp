#include "prove/proof_environment.hpp"

#include <stdexcept>

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
  if (valueOf(own, "EBBTIDE") == "0") {
    throw std::invalid_argument("EBBTIDE=0 turns Ebbtide off, so no budget holds: unset EBBTIDE");
  }
  Environment bounded = own;
  if (!budget.empty()) set(bounded, kBudget, budget);
  set(bounded, kReport, report);
  set(bounded, kProof, proof);
  return bounded;
}

}  // namespace ebbtide::cli
