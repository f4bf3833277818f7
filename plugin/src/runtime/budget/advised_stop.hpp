// AdvisedStop: when a rank that cannot fit its budget is stopped, and with which words. One of a
// pipeline waits until the other ranks have told who could help.
//
//   its report:   not made ──► told ──► advised: their round has ended, or nobody listens
//   the rank:     it fits ──► cannot fit ─┬─ in a pipeline: once advised, or in kAdviceTime ──►
//   stop
//                                         └─ else ─────────────────────────────────────────► stop
//
// Torch-free. Thread rule: requested() from any thread; whoever has it guards the rest.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace ebbtide::plugin {

class AdvisedStop {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr auto kAdviceTime = std::chrono::seconds(60);
  static constexpr auto kWaitInStep = std::chrono::seconds(5);

  // --- what the ranks tell each other
  // Under the budget in force. `heard`: others take part in a plan with it.
  void noteTold(bool heard) {
    told_ = true;
    advised_ = advised_ || !heard;
  }
  void noteRoundEnded() { advised_ = true; }
  // That round was about other stages than the rank has; what it told holds.
  void awaitNextRound() { advised_ = false; }
  // The rank tells anew.
  void withdraw() { told_ = advised_ = false; }
  bool told() const { return told_; }
  bool advised() const { return advised_; }
  // Who could help: said with the message, where a rank waits for that.
  void advise(const std::string& advice) {
    if (awaits()) advice_ = advice;
  }

  // --- what it comes to
  // It trains on over its budget: that was asked for.
  void cannotFit(std::string message) { message_ = std::move(message); }
  void stopAtOnce() { stop_ = true; }
  // The program has met it, as an error.
  void noteRaised() { raised_ = true; }
  bool raised() const { return raised_; }
  // The program goes on with something else than what was stopped.
  void goOn() {
    stop_ = raised_ = false;
    beginAnew();
  }
  void stopWhenAdvised(Time now) {
    if (!stop_by_) stop_by_ = now + kAdviceTime;
  }
  bool awaits() const { return stop_by_.has_value(); }
  bool requested() const noexcept { return stop_; }
  std::string message() const { return message_ + advice_; }

  // At a step's end: until when this thread is to wait to be advised. The others are in this step
  // too, or in the one before: they need some to tell what they have, and do so while this rank
  // waits. Nothing: it goes on.
  std::optional<Time> waitUntil(Time now) const {
    if (!awaits() || stop_ || !told_) return std::nullopt;
    return std::min(*stop_by_, now + kWaitInStep);
  }
  // And after that; `now`: when it began to wait.
  void decide(Time now) {
    if (awaits() && (advised_ || now >= *stop_by_)) stop_ = true;
  }

  // Another budget holds: it may fit that one.
  void beginAnew() {
    withdraw();
    standDown();
  }
  // There is no budget for a while. What it told holds.
  void standDown() {
    stop_by_.reset();
    advice_.clear();
  }

 private:
  bool told_ = false, advised_ = false, raised_ = false;
  std::optional<Time> stop_by_;
  std::string message_, advice_;
  std::atomic<bool> stop_{false};
};

}  // namespace ebbtide::plugin
