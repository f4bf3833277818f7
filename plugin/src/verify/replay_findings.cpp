#include "verify/replay_findings.hpp"

#include "verify/deterministic_ops.hpp"

namespace ebbtide::plugin {

bool ReplayFindings::reject(const std::string& op, std::uint64_t signature) {
  any_rejected_ = true;
  ++rejected_names_[op];
  return rejected_.insert(signature).second;
}

void ReplayFindings::addDiffering(const std::string& op, std::uint64_t signature) {
  if (!differed_.insert(signature).second || whyDeterministic(op) != nullptr) return;
  if (!differed_names_.insert(op).second) distrust(op);
}

bool ReplayFindings::distrust(const std::string& op) {
  any_distrusted_ = true;
  return distrusted_.insert(op).second;
}

void ReplayFindings::addUnwritten(const std::string& op) {
  unwritten_.insert(op);
  any_unwritten_ = true;
}

bool ReplayFindings::rejectsName(const std::string& op) const {
  return rejected_names_.contains(op);
}

bool ReplayFindings::rejects(const Plan& plan) const {
  for (std::size_t op = 0; op < plan.ops.replayed.size(); ++op) {
    if (!plan.ops.replayed[op]) continue;
    if (rejects(plan.ops.signatures[op]) || distrusts(plan.ops.replayed_name[op])) return true;
  }
  return false;
}

}  // namespace ebbtide::plugin
