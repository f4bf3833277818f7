// PlanningService: the planning thread, its requests, and what wakes it. Beside that thread runs
// the search for a better plan than the one in force, which delays no other program's. Torch-free.
//
//   a step is recorded ─► ask() ─► take() ─► a first plan, or what search() finds ─► endPlanning()
//                                    └─► improve() ─► polish(), beside it ─► takePolished()
//                                          └─ cut(): nobody waits for what it finds ─► endSearch()
//
// Thread rule: the session's guard guards what takes Held; no search runs under it. What takes no
// Held is the planning thread's, but for onThread(), isCut(), wake() and join().
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "plan/plan.hpp"
#include "plan/plan_search.hpp"
#include "runtime/planning/planning_allowance.hpp"
#include "runtime/planning/planning_thread.hpp"
#include "runtime/planning/polishing.hpp"
#include "runtime/planning/polishing_pace.hpp"
#include "runtime/run/session_guard.hpp"
#include "runtime/steps/recorded_steps.hpp"

namespace ebbtide::plugin {

class PlanningService {
 public:
  using Held = SessionGuard::Held;
  using Time = std::chrono::steady_clock::time_point;

  // `options.cancelled` is its own.
  PlanningService(const PlanSearch::Options& options, const PlanSearch::Tell& debug);

  // Of this process: as the configuration asks for.
  const PlanSearch& search() const noexcept { return search_; }
  // Is the caller one of the threads that plan?
  static bool onThread() noexcept { return onPlanningThread(); }

  // --- the thread
  void begin(std::function<void()> run);
  // Searches end. No work is begun any more.
  void end(const Held&) noexcept;
  // Without the guard. A search for a better plan may go on: the destructor waits for it.
  void join();
  void wake() noexcept { changed_.notify_all(); }
  // Until `due`, or until there is a step to plan, a search for a better plan is over or late, the
  // service ends, or there is `other` work.
  void await(Held& held, Time due, const std::function<bool()>& other);
  // Of a training thread, which waits for what the planning thread is about to do.
  void awaitWord(Held& held, Time due, const std::function<bool()>& word);

  // --- what is in work
  bool isBusy(const Held&) const noexcept { return busy_; }  // one is asked for, or planned
  void ask(const Held&, RecordedStep step);
  std::optional<RecordedStep> take(const Held&) { return std::exchange(asked_, std::nullopt); }
  void noteTold(const Held&) noexcept { busy_ = false; }  // what follows is for other ranks
  void endPlanning(const Held&) noexcept {
    busy_ = asked_.has_value();
    wake();
  }

  // --- a search for a better plan, one at a time
  // A plan in force is followed meanwhile. polish() or endSearch() comes next.
  void improve(const Held&, std::shared_ptr<const Plan> first);
  // nullptr: none is searched for.
  const std::shared_ptr<const Plan>& improved(const Held&) const noexcept { return first_; }
  // Only a search for a better plan: without one there is nothing to follow but what it finds.
  void cut(const Held&) noexcept;
  // The plan in force has failed, or proved inadequate. Its program waits for the search, and the
  // search no longer waits for processor time. After a while it is late, as its thread may run
  // little.
  void need(const Held&);
  bool isLate(const Held&, Time now) const noexcept { return late_from_ <= now; }
  bool isCut() const noexcept { return polish_ends_; }
  // The trace is shared with the search, which only reads it.
  void polish(std::shared_ptr<const scheduler::Trace> trace, scheduler::TraceGraph graph,
              scheduler::Bytes cap);
  bool isPolished() const { return polishing_.isOver(); }
  // Waits for the search; throws what planners throw.
  Planned takePolished() { return polishing_.take(); }
  // Processor time that all finished searches for better plans have used.
  std::chrono::nanoseconds usedByPolishing() const {
    return std::chrono::nanoseconds(polished_ns_);
  }
  struct Ended {
    std::shared_ptr<const Plan> first;  // nullptr: none
    bool cut = false;
  };
  Ended endSearch(const Held&);

 private:
  PolishingPace::Parts paceOf(const PlanSearch::Options& options);
  // By all planning threads so far. Called by the thread that searches for a better plan.
  std::chrono::nanoseconds used() const;

  std::atomic<bool> ended_{false}, polish_ends_{false};  // written with the guard held
  // Of the planning thread's processor time; CLOCK_REALTIME: no thread runs.
  std::atomic<clockid_t> thread_clock_{CLOCK_REALTIME};
  std::atomic<std::int64_t> polished_ns_{0};
  const PlanningAllowance allowance_;
  PolishingPace pace_;
  const PlanSearch search_, polish_search_;
  const std::chrono::milliseconds patience_;
  std::mutex pause_;  // only the thread that searches for a better plan takes it
  std::condition_variable changed_, pause_ends_;
  std::thread thread_;
  Polishing polishing_;
  // The guard guards these.
  std::optional<RecordedStep> asked_;
  std::shared_ptr<const Plan> first_;
  Time late_from_ = Time::max();  // from then on the search is late
  bool busy_ = false;
};

}  // namespace ebbtide::plugin
