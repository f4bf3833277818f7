#include "runtime/planning_service.hpp"

#include <algorithm>

namespace ebbtide::plugin {
namespace {

PlanSearch::Options endedBy(PlanSearch::Options options, const std::atomic<bool>& ends) {
  options.cancelled = &ends;
  return options;
}

}  // namespace

PlanningService::PlanningService(const PlanSearch::Options& options, const PlanSearch::Tell& debug)
    : search_(endedBy(options, ended_), debug),
      polish_search_(endedBy(options, polish_ends_), debug) {}

void PlanningService::begin(std::function<void()> run) {
  thread_ = startPlanningThread("ebbtide-plan", std::move(run));
}

void PlanningService::join() {
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  polishing_.join();
}

void PlanningService::await(Held& held, Time due, const std::function<bool()>& other) {
  const auto ready = [&] {
    return ended_ || asked_ || isPolished() || other() || due <= std::chrono::steady_clock::now();
  };
  while (!ready()) {
    const Time look = std::chrono::steady_clock::now() + Polishing::kLook;
    held.waitUntil(changed_, polishing_.isUnderWay() ? std::min(due, look) : due, ready);
  }
}

void PlanningService::awaitWord(Held& held, Time due, const std::function<bool()>& word) {
  held.waitUntil(changed_, due, [&] { return ended_ || word(); });
}

void PlanningService::ask(const Held&, RecordedStep step) {
  asked_ = std::move(step);
  busy_ = true;
}

void PlanningService::improve(const Held&, std::shared_ptr<const Plan> first) {
  first_ = std::move(first);
  polish_ends_ = ended_.load();
}

void PlanningService::polish(scheduler::Trace trace, scheduler::TraceGraph graph,
                             scheduler::Bytes cap) {
  const auto of = std::make_shared<const std::pair<scheduler::Trace, scheduler::TraceGraph>>(
      std::move(trace), std::move(graph));
  polishing_.begin([this, of, cap] { return polish_search_.best(of->first, of->second, cap); });
}

PlanningService::Ended PlanningService::endSearch(const Held&) {
  const bool cut = polish_ends_.exchange(ended_);
  return {std::exchange(first_, nullptr), cut && !ended_};
}

}  // namespace ebbtide::plugin
