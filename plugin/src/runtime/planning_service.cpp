#include "runtime/planning_service.hpp"

#include <pthread.h>

namespace ebbtide::plugin {
namespace {

thread_local bool on_planning_thread = false;

PlanSearch::Options endedBy(PlanSearch::Options options, const std::atomic<bool>& ends) {
  options.cancelled = &ends;
  return options;
}

}  // namespace

PlanningService::PlanningService(PlanSearch::Options options, const PlanSearch::Tell& debug)
    : search_(endedBy(std::move(options), search_ends_), debug) {}

bool PlanningService::onThread() noexcept {
  return on_planning_thread;
}

void PlanningService::begin(std::function<void()> run) {
  thread_ = std::thread([run = std::move(run)] {
    pthread_setname_np(pthread_self(), "ebbtide-plan");
    on_planning_thread = true;
    run();
  });
}

void PlanningService::join() {
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PlanningService::await(Held& held, Time due, const std::function<bool()>& other) {
  held.waitUntil(changed_, due, [&] {
    return ended_ || asked_ || other() || due <= std::chrono::steady_clock::now();
  });
}

void PlanningService::awaitWord(Held& held, Time due, const std::function<bool()>& word) {
  held.waitUntil(changed_, due, [&] { return ended_ || word(); });
}

void PlanningService::ask(const Held&, RecordedStep step) {
  asked_ = std::move(step);
  busy_ = true;
}

std::optional<RecordedStep> PlanningService::take(const Held&) {
  search_ends_ = ended_;
  return std::exchange(asked_, std::nullopt);
}

PlanningService::Ended PlanningService::endSearch(const Held&) {
  busy_ = asked_.has_value();
  const bool cut = search_ends_.exchange(ended_);
  return {std::exchange(first_, nullptr), cut && !ended_};
}

}  // namespace ebbtide::plugin
