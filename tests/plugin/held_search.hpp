// A planner whose searches a test holds back, and what they may find.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
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
    Asked asked{graph, budget_bytes};
    std::optional<Found> found;
    {
      std::unique_lock lock(mutex_);
      const int search = ++begun_;
      asked_.emplace(search, std::move(asked));
      changed_.notify_all();
      // Who cancels wakes nobody.
      while (!found_.contains(search) && !*options.cancelled)
        changed_.wait_for(lock, std::chrono::milliseconds(1));
      if (*options.cancelled) {
        ++cut_;
        changed_.notify_all();
      }
      asked_.erase(search);
      if (found_.contains(search)) found = found_[search];
    }
    if (!found) return everything(graph, budget_bytes);
    if (found->error) std::rethrow_exception(found->error);
    return found->result;
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
    for (int search = begun(); search > 0; --search) letGo(search, finds);
  }
  // This search alone. The caller's thread computes the plan: the search's own thread may have the
  // lowest priority, and hardly run beside busy ones.
  void letGo(int search, const Finds& finds) {
    Asked asked;
    {
      const std::scoped_lock lock(mutex_);
      const auto open = asked_.find(search);
      if (open == asked_.end() || found_.contains(search)) return;
      asked = open->second;
    }
    Found found;
    try {
      found.result = finds(asked.graph, asked.budget_bytes);
    } catch (...) {
      found.error = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    found_.try_emplace(search, std::move(found));
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
  struct Asked {
    Graph graph;
    Bytes budget_bytes = 0;
  };
  struct Found {
    PlanResult result;
    std::exception_ptr error;
  };

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int begun_ = 0, cut_ = 0;
  // By the number of the search.
  mutable std::map<int, Asked> asked_;  // those under way
  mutable std::map<int, Found> found_;
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
