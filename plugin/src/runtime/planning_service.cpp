#include "runtime/planning_service.hpp"

#include <algorithm>

namespace ebbtide::plugin {
namespace {

constexpr int kPatience = 2;  // times as long as a search may take

PlanSearch::Options endedBy(PlanSearch::Options options, const std::atomic<bool>& ends,
                            scheduler::SearchPace* pace = nullptr) {
  options.cancelled = &ends;
  options.pace = pace;
  return options;
}

}  // namespace

PlanningService::PlanningService(const PlanSearch::Options& options, const PlanSearch::Tell& debug)
    : search_(endedBy(options, ended_), debug),
      polish_search_(endedBy(options, polish_ends_, &pace_), debug),
      patience_(kPatience * options.planning_time) {}

void PlanningService::begin(std::function<void()> run) {
  thread_ = startPlanningThread("ebbtide-plan", Priority::kNormal, std::move(run));
}

void PlanningService::join() {
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  polishing_.join();
}

void PlanningService::await(Held& held, Time due, const std::function<bool()>& other) {
  const auto ready = [&] {
    const Time now = std::chrono::steady_clock::now();
    return ended_ || asked_ || isPolished() || isLate(held, now) || other() || due <= now;
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
  late_from_ = Time::max();
}

void PlanningService::need(const Held&) {
  if (first_ == nullptr) return;
  late_from_ = std::min(late_from_, std::chrono::steady_clock::now() + patience_);
}

void PlanningService::polish(scheduler::Trace trace, scheduler::TraceGraph graph,
                             scheduler::Bytes cap) {
  const auto of = std::make_shared<const std::pair<scheduler::Trace, scheduler::TraceGraph>>(
      std::move(trace), std::move(graph));
  polishing_.begin([this, of, cap] { return polish_search_.best(of->first, of->second, cap); });
}

PlanningService::Ended PlanningService::endSearch(const Held&) {
  const bool cut = polish_ends_.exchange(ended_);
  late_from_ = Time::max();
  return {std::exchange(first_, nullptr), cut && !ended_};
}

}  // namespace ebbtide::plugin
