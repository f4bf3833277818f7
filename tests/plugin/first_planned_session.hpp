// A session whose plan is there at once, while a search that the test holds back goes on.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "controlled_session.hpp"
#include "held_search.hpp"

namespace ebbtide::plugin::test {

class FirstPlannedSession : public ControlledSession {
 protected:
  FirstPlannedSession() {  // to reject one op is to reject no other
    for (std::size_t op = 0; op < trace_.ops.size(); ++op) trace_.ops[op].signature = op + 1;
    config_.planning.planner = "auto";
    searches_ = &search_;
  }
  ~FirstPlannedSession() override {
    if (session_) session_->shutdown();
    session_.reset();  // before the search goes, which it waits for
  }

  std::shared_ptr<const Plan> inForce() { return inForce(trace_); }
  // Without a step. The search's thread has the lowest priority: beside others it takes minutes
  // under a sanitizer.
  std::shared_ptr<const Plan> awaitOther(const std::shared_ptr<const Plan>& plan) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (inForce() == plan && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_NE(inForce(), plan);
    return inForce();
  }
  // The planning thread refuses this after whatever was asked of it before.
  void awaitPlanning() { EXPECT_NE(post("/v1/budget", {{"budget", 1}}).status, 200); }
  // Nothing that was asked for before is left to do, nor a search that it began.
  void settle() {
    awaitPlanning();
    const auto polishes = [this] {
      const auto held = session_->guard().hold();
      return session_->plans().polishes(held);
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
    while (polishes() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_FALSE(polishes());
  }
  std::shared_ptr<const Plan> inForce(const scheduler::Trace& trace) {
    return session_->course().planFor(trace.ops.front().signature, /*trains=*/true);
  }
  // Of a run whose first step has ended.
  std::shared_ptr<const Plan> firstOf(std::int64_t budget) {
    begin(budget);
    EXPECT_EQ(step(), nullptr);
    const auto first = awaitOther(nullptr);
    settle();
    return first;
  }
  // Whose third one has: by its figures, and a better one is searched for.
  std::shared_ptr<const Plan> searchedFor(std::int64_t budget) {
    firstOf(budget);
    step();
    step();
    awaitFirstSearch();
    const auto first = inForce();
    EXPECT_NE(first, nullptr);
    return first;
  }
  // It begins on its own thread: until the planning thread is done, too, no step would be planned.
  void awaitFirstSearch() {
    search_.awaitBegun(1);
    awaitPlanning();
  }
  std::shared_ptr<const Plan> verifiedInStepsTwoAndThree() {
    const auto first = step();
    EXPECT_NE(first, nullptr);
    session_->verifications().verified(*first, true);
    step();
    awaitFirstSearch();
    return inForce();
  }
  // Per op of the graph: does this plan replay it?
  std::vector<bool> firstsOps(const Plan& plan) const {
    std::vector<bool> replayed;
    for (const scheduler::OpId op : scheduler::buildGraph(trace_).trace_op_of)
      replayed.push_back(op != scheduler::kNone && plan.ops.replayed[static_cast<std::size_t>(op)]);
    return replayed;
  }
  scheduler::Trace otherProgram() const {
    scheduler::Trace other = trace_;
    other.signature = 2000;
    for (auto& op : other.ops) op.signature += 100'000;
    return other;
  }
  std::int64_t twoFifths() const { return plain_bytes_ / 5 * 2 + kMib; }  // no plan uses the MiB
  std::int64_t small() const { return plain_bytes_ - saved_bytes_ / 2 + 8 * kMib; }

  HeldSearch search_;
};

}  // namespace ebbtide::plugin::test
