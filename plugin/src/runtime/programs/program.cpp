#include "runtime/programs/program.hpp"

#include <algorithm>

namespace ebbtide::plugin {

void Program::askAgain() {
  if (planning.replan || planning.replans == kMostReplans) return;
  ++planning.replans;
  planning.replan = true;
}

// Until then its plan holds.
void Program::forgetVerdict() {
  verifications.compared.clear();
  planning.asked = planning.said_plan = false;
  planning.replans = verifications.partial = verifications.failed = in_force.slow_offloads = 0;
}

const std::shared_ptr<Plan>& Program::planAt(std::int64_t step) {
  if (later.plan != nullptr && step >= later.from)
    follow(std::exchange(later.plan, nullptr), later.predicted_peak_bytes);
  return in_force.plan;
}

void Program::follow(std::shared_ptr<Plan> now, std::int64_t predicted) {
  in_force.plan = std::move(now);
  in_force.first = {};
  in_force.predicted_peak_bytes = predicted;
  in_force.steady_peak_bytes = 0;
  in_force.slow_offloads = 0;
}

bool Program::adopt(std::shared_ptr<Plan> adopted, std::int64_t predicted, std::int64_t from,
                    std::int64_t next) {
  const std::shared_ptr<Plan>& now = in_force.plan;
  const bool same = adopted != nullptr && now != nullptr && adopted->course == now->course;
  const bool again = adopted != nullptr && planning.plans_made++ > 0 && !same;
  later.plan = nullptr;
  if (from > next) {
    later = {.plan = std::move(adopted), .predicted_peak_bytes = predicted, .from = from};
    in_force.slow_offloads = 0;  // no reason to plan anew any more
  } else {
    if (now != nullptr) planning.replan = false;  // it was that one which steps found wanting
    planning.awaits_search = false;
    follow(std::move(adopted), predicted);
  }
  return again;
}

void Program::dropPlan() {
  in_force.plan = later.plan = nullptr;
  in_force.first = {};
}

void Program::notePlainPeak(std::int64_t peak, std::int64_t activation) {
  if (peak < plain.peak_bytes) return;
  plain.peak_bytes = peak;
  if (activation > 0) plain.activation_bytes = activation;
}

void Program::noteFollowed(std::int64_t peak, bool slowly) {
  in_force.steady_peak_bytes = std::max(in_force.steady_peak_bytes, peak);
  in_force.slow_offloads = slowly ? in_force.slow_offloads + 1 : 0;
}

void Program::noteVerified(const Plan& whole) {
  for (std::size_t op = 0; op < whole.ops.replayed.size(); ++op) {
    if (whole.ops.replayed[op]) verifications.compared.insert(static_cast<OpId>(op));
  }
}

bool Program::hasCompared(const Plan& of) const {
  for (std::size_t op = 0; op < of.ops.replayed.size(); ++op) {
    if (of.ops.replayed[op] && !verifications.compared.contains(static_cast<OpId>(op)))
      return false;
  }
  return true;
}

}  // namespace ebbtide::plugin
