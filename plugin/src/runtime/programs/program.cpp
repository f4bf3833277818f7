#include "runtime/programs/program.hpp"

#include <algorithm>

namespace ebbtide::plugin {

void Program::askAgain() {
  if (replan || replans == kMostReplans) return;
  ++replans;
  replan = true;
}

// Until then its plan holds.
void Program::forgetVerdict() {
  verifications.compared.clear();
  asked = said_plan = false;
  replans = verifications.partial = verifications.failed = slow_offloads = 0;
}

const std::shared_ptr<Plan>& Program::planAt(std::int64_t step) {
  if (later.plan != nullptr && step >= later.from)
    follow(std::exchange(later.plan, nullptr), later.predicted_peak_bytes);
  return plan;
}

void Program::follow(std::shared_ptr<Plan> now, std::int64_t predicted) {
  plan = std::move(now);
  first = {};
  predicted_peak_bytes = predicted;
  steady_peak_bytes = 0;
  slow_offloads = 0;
}

bool Program::adopt(std::shared_ptr<Plan> adopted, std::int64_t predicted, std::int64_t from,
                    std::int64_t next) {
  const bool same = adopted != nullptr && plan != nullptr && adopted->course == plan->course;
  const bool again = adopted != nullptr && plans_made++ > 0 && !same;
  later.plan = nullptr;
  if (from > next) {
    later = {.plan = std::move(adopted), .predicted_peak_bytes = predicted, .from = from};
    slow_offloads = 0;  // no reason to plan anew any more
  } else {
    if (plan != nullptr) replan = false;  // it was that one which steps found wanting
    awaits_search = false;
    follow(std::move(adopted), predicted);
  }
  return again;
}

void Program::dropPlan() {
  plan = later.plan = nullptr;
  first = {};
}

void Program::notePlainPeak(std::int64_t peak, std::int64_t activation) {
  if (peak < plain_peak_bytes) return;
  plain_peak_bytes = peak;
  if (activation > 0) activation_bytes = activation;
}

void Program::noteFollowed(std::int64_t peak, bool slowly) {
  steady_peak_bytes = std::max(steady_peak_bytes, peak);
  slow_offloads = slowly ? slow_offloads + 1 : 0;
}

void Program::noteVerified(const Plan& whole) {
  for (std::size_t op = 0; op < whole.replayed.size(); ++op) {
    if (whole.replayed[op]) verifications.compared.insert(static_cast<OpId>(op));
  }
}

bool Program::hasCompared(const Plan& of) const {
  for (std::size_t op = 0; op < of.replayed.size(); ++op) {
    if (of.replayed[op] && !verifications.compared.contains(static_cast<OpId>(op))) return false;
  }
  return true;
}

}  // namespace ebbtide::plugin
