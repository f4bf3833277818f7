// A planner whose searches a test holds back, and what they may find.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ebbtide/scheduler/planner.hpp"
#include "ebbtide/scheduler/simulator.hpp"

namespace ebbtide::plugin::test {

using scheduler::Bytes;
using scheduler::Graph;
using scheduler::PlannerOptions;
using scheduler::PlanResult;

// Searches until it is let go of, and finds then what it is told.
class HeldSearch : public scheduler::Planner {
 public:
  using Finds = std::function<PlanResult(const Graph&, Bytes)>;

  scheduler::PlannerInfo info() const override { return {"held", "this test", "none"}; }
  PlanResult plan(const Graph& graph, Bytes budget_bytes,
                  const PlannerOptions& options) const override {
    Finds finds;
    {
      std::unique_lock lock(mutex_);
      const int search = ++begun_;
      changed_.notify_all();
      // Who cancels wakes nobody.
      while (!let_go_.contains(search) && !*options.cancelled)
        changed_.wait_for(lock, std::chrono::milliseconds(1));
      if (*options.cancelled) {
        ++cut_;
        changed_.notify_all();
      }
      if (let_go_.contains(search)) finds = let_go_[search];
    }
    return finds ? finds(graph, budget_bytes) : everything(graph, budget_bytes);
  }

  void awaitBegun(int searches) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::minutes(10), [&] { return begun_ >= searches; }))
        << "begun: " << begun_;
  }
  void awaitCut(int searches) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(10), [&] { return cut_ >= searches; }))
        << "cut: " << cut_;
  }
  // All that have begun.
  void letGo(const Finds& finds) {
    const std::scoped_lock lock(mutex_);
    for (int search = 1; search <= begun_; ++search) let_go_.try_emplace(search, finds);
    changed_.notify_all();
  }
  void letGo(int search, Finds finds) {  // this one alone
    const std::scoped_lock lock(mutex_);
    let_go_.try_emplace(search, std::move(finds));
    changed_.notify_all();
  }
  int begun() const {
    const std::scoped_lock lock(mutex_);
    return begun_;
  }
  int cut() const {
    const std::scoped_lock lock(mutex_);
    return cut_;
  }

  static PlanResult everything(const Graph& graph, Bytes budget_bytes) {
    PlanResult result;
    result.schedule = scheduler::keepEverything(graph);
    result.peak_bytes = scheduler::simulate(graph, result.schedule).peak_bytes;
    result.feasible = result.peak_bytes <= budget_bytes;
    result.planner = "held";
    return result;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int begun_ = 0, cut_ = 0;
  mutable std::map<int, Finds> let_go_;  // by the number of the search
};

// By the slowest single-pass schedule that fits.
inline PlanResult slowPlan(const Graph& graph, Bytes budget_bytes) {
  return scheduler::planner("chen").plan(graph, budget_bytes, {});
}

inline PlanResult failingPlan(const Graph&, Bytes) {
  throw std::runtime_error("the search failed");
}

// For so many bytes more, of replays of these ops alone: it is better by what it need not replay.
inline HeldSearch::Finds replayingOnly(std::vector<bool> may_run, Bytes more_bytes) {
  return [may_run = std::move(may_run), more_bytes](const Graph& graph, Bytes budget_bytes) {
    Graph allowed = graph;
    for (std::size_t op = 0; op < allowed.ops.size(); ++op)
      allowed.ops[op].rerunnable = allowed.ops[op].rerunnable && op < may_run.size() && may_run[op];
    PlannerOptions options;
    options.named["work"] = "100000";
    PlanResult found =
        scheduler::planner("greedy").plan(allowed, budget_bytes + more_bytes, options);
    EXPECT_TRUE(found.feasible);
    EXPECT_GT(found.recompute_ns, 0);
    return found;
  };
}

}  // namespace ebbtide::plugin::test
