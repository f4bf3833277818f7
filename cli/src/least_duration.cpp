#include "least_duration.hpp"

#include <algorithm>
#include <chrono>

#include "ebbtide/scheduler/time_lower_bound.hpp"

namespace ebbtide::cli {
namespace {

// The bound takes ops x values steps at least.
constexpr std::size_t kMostSteps = 50'000'000;
constexpr auto kMostTime = std::chrono::seconds(1);

}  // namespace

scheduler::Nanoseconds leastDuration(const scheduler::Graph& graph, scheduler::Bytes budget_bytes,
                                     scheduler::Nanoseconds plain_ns,
                                     scheduler::PlannerOptions options) {
  if (graph.ops.size() > kMostSteps / std::max<std::size_t>(graph.values.size(), 1)) {
    return plain_ns;
  }
  options.deadline = std::min(options.deadline, std::chrono::steady_clock::now() + kMostTime);
  options.threads = 1;
  return plain_ns + scheduler::timeLowerBound(graph, budget_bytes, options);
}

}  // namespace ebbtide::cli
