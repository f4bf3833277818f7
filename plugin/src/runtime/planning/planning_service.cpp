#include "runtime/planning/planning_service.hpp"

#include <pthread.h>

#include <algorithm>

#include "base/processor_time.hpp"

namespace ebbtide::plugin {
namespace {

// Times as long as a search may take. A plan takes up to three, which share their core.
constexpr int kPatience = 4;
// While planning has used what it may. A look takes 28 us of the thread that searches and as much
// of the planning thread, which counts as planning. Fifty a second would use up the allowance of a
// process that keeps an eighth of a core busy; with less the search would never go on.
constexpr auto kWait = std::chrono::milliseconds(250);
// How long the process's end waits for a search that was told to end.
constexpr auto kMostAtEnd = std::chrono::milliseconds(20);

// Adds what this thread has used when it goes, by an exception, too.
class NotedTime {
 public:
  explicit NotedTime(std::atomic<std::int64_t>& used_ns) : used_ns_(used_ns) {}
  ~NotedTime() { used_ns_ += ProcessorTime::ofThread().count(); }
  NotedTime(const NotedTime&) = delete;
  NotedTime& operator=(const NotedTime&) = delete;

 private:
  std::atomic<std::int64_t>& used_ns_;
};

PlanSearch::Options endedBy(PlanSearch::Options options, const std::atomic<bool>& ends,
                            scheduler::SearchPace* pace = nullptr) {
  options.cancelled = &ends;
  options.pace = pace;
  return options;
}

}  // namespace

PlanningService::PlanningService(const PlanSearch::Options& options, const PlanSearch::Tell& debug)
    : allowance_(&ProcessorTime::ofProcess, [this] { return used(); }),
      pace_(paceOf(options)),
      search_(endedBy(options, ended_), debug),
      polish_search_(endedBy(options, polish_ends_, &pace_), debug),
      patience_(kPatience * options.planning_time) {}

// Where work ends searches alone they wait for nothing.
PolishingPace::Parts PlanningService::paceOf(const PlanSearch::Options& options) {
  PolishingPace::Parts parts{.used = &ProcessorTime::ofThread, .left = {}, .wait = {}};
  if (options.work) return parts;
  parts.left = [this] { return allowance_.left(); };
  // Who ends the pause takes no lock, and may come too early: then it goes on for its time.
  parts.wait = [this] {
    std::unique_lock lock(pause_);
    if (!polish_ends_) pause_ends_.wait_for(lock, kWait);
    return !polish_ends_;
  };
  return parts;
}

std::chrono::nanoseconds PlanningService::used() const {
  const clockid_t clock = thread_clock_;
  const auto others = usedByPolishing() + (clock != CLOCK_REALTIME ? ProcessorTime::of(clock)
                                                                   : std::chrono::nanoseconds{});
  return others + ProcessorTime::ofThread();
}

void PlanningService::begin(std::function<void()> run) {
  thread_ = startPlanningThread("ebbtide-plan", Priority::kNormal, [this, run = std::move(run)] {
    clockid_t clock{};
    if (pthread_getcpuclockid(pthread_self(), &clock) == 0) thread_clock_ = clock;
    run();
    thread_clock_ = CLOCK_REALTIME;
  });
}

void PlanningService::join() {
  changed_.notify_all();
  pause_ends_.notify_all();
  if (thread_.joinable()) thread_.join();
  polishing_.endsWithin(kMostAtEnd);
}

void PlanningService::await(Held& held, Time due, const std::function<bool()>& other) {
  const auto ready = [&] {
    const Time now = std::chrono::steady_clock::now();
    return ended_ || asked_ || isPolished() || isLate(held, now) || other() || due <= now;
  };
  while (!ready()) {
    const std::chrono::milliseconds until_look = pace_.waits() ? kWait : Polishing::kLook;
    const Time look = std::chrono::steady_clock::now() + until_look;
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
  pace_.hurry(false);
}

void PlanningService::end(const Held&) noexcept {
  ended_ = polish_ends_ = true;
  pause_ends_.notify_all();
}

void PlanningService::cut(const Held&) noexcept {
  if (first_ != nullptr) polish_ends_ = true;
  late_from_ = Time::max();
  pause_ends_.notify_all();
}

void PlanningService::need(const Held&) {
  if (first_ == nullptr) return;
  pace_.hurry(true);
  pause_ends_.notify_all();
  late_from_ = std::min(late_from_, std::chrono::steady_clock::now() + patience_);
}

void PlanningService::polish(std::shared_ptr<const scheduler::Trace> trace,
                             scheduler::TraceGraph graph, scheduler::Bytes cap) {
  // A std::function is copied, the graph is not.
  const auto of = std::make_shared<const scheduler::TraceGraph>(std::move(graph));
  polishing_.begin([this, trace = std::move(trace), of, cap] {
    const NotedTime noted(polished_ns_);
    return polish_search_.best(*trace, *of, cap);
  });
}

PlanningService::Ended PlanningService::endSearch(const Held&) {
  const bool cut = polish_ends_.exchange(ended_);
  late_from_ = Time::max();
  return {std::exchange(first_, nullptr), cut && !ended_};
}

}  // namespace ebbtide::plugin
