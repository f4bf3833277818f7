// PlanningService: the planning thread: what it is asked for, what wakes it, its search, and the
// plan in force that a better one is searched for. Torch-free.
//
//   a step is recorded ─► ask() ─► take() ─► search() … improve() ─► endSearch() ─► the next one
//                                              └─ cut(): nobody waits for what it finds
//
// Thread rule: the session's guard guards what takes Held; no search runs under it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "plan/plan.hpp"
#include "plan/plan_search.hpp"
#include "runtime/recorded_steps.hpp"
#include "runtime/session_guard.hpp"

namespace ebbtide::plugin {

class PlanningService {
 public:
  using Held = SessionGuard::Held;
  using Time = std::chrono::steady_clock::time_point;

  // `options.cancelled` is its own.
  PlanningService(PlanSearch::Options options, const PlanSearch::Tell& debug);

  // Of this process: as the configuration asks for.
  const PlanSearch& search() const noexcept { return search_; }
  static bool onThread() noexcept;  // does the planning thread ask?

  // --- the thread
  void begin(std::function<void()> run);
  // Its search ends. Nothing is taken up any more.
  void end(const Held&) noexcept { ended_ = search_ends_ = true; }
  void join();  // without the guard
  void wake() noexcept { changed_.notify_all(); }
  // Until then, or there is a step to plan, it ends, or `other` work is there.
  void await(Held& held, Time due, const std::function<bool()>& other);
  // Of a training thread, which waits for what the planning thread is about to do.
  void awaitWord(Held& held, Time due, const std::function<bool()>& word);

  // --- what is in work
  bool isBusy(const Held&) const noexcept { return busy_; }  // one is asked for, or planned
  void ask(const Held&, RecordedStep step);
  std::optional<RecordedStep> take(const Held&);
  void noteTold(const Held&) noexcept { busy_ = false; }  // what follows is for other ranks

  // --- its search
  // A plan in force is followed while a better one is searched for.
  void improve(const Held&, std::shared_ptr<const Plan> first) { first_ = std::move(first); }
  // nullptr: nothing is in force meanwhile.
  const std::shared_ptr<const Plan>& improved(const Held&) const noexcept { return first_; }
  // Only a search for a better plan: without one there is nothing to follow but what it finds.
  void cut(const Held&) noexcept {
    if (first_ != nullptr) search_ends_ = true;
  }
  bool isCut() const noexcept { return search_ends_; }
  struct Ended {
    std::shared_ptr<const Plan> first;  // nullptr: none
    bool cut = false;
  };
  Ended endSearch(const Held&);

 private:
  std::atomic<bool> search_ends_{false};
  const PlanSearch search_;
  std::condition_variable changed_;
  std::thread thread_;
  // The guard guards these.
  std::optional<RecordedStep> asked_;
  std::shared_ptr<const Plan> first_;
  bool busy_ = false, ended_ = false;
};

}  // namespace ebbtide::plugin
