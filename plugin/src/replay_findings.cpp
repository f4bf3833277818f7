#include "replay_findings.hpp"

namespace ebbtide::plugin {

bool ReplayFindings::reject(const std::string& op, std::uint64_t signature) {
  any_rejected_ = true;
  ++rejected_names_[op];
  return rejected_.insert(signature).second;
}

bool ReplayFindings::rejectAsBefore(const std::string& op, std::uint64_t signature) {
  if (!rejected_.insert(signature).second) return false;
  any_rejected_ = true;
  ++rejected_names_before_[op];
  return true;
}

bool ReplayFindings::rejectsName(const std::string& op) const {
  return rejected_names_.contains(op) || rejected_names_before_.contains(op);
}

bool ReplayFindings::rejects(const Plan& plan) const {
  for (std::size_t op = 0; op < plan.replayed.size(); ++op) {
    if (plan.replayed[op] && rejected_.contains(plan.op_signatures[op])) return true;
  }
  return false;
}

}  // namespace ebbtide::plugin
