// PolishingPace: how a search for a better plan spends processor time. The search ends by the time
// that it has used, as at the lowest priority it may run little. It waits while planning has used
// up its allowance. Torch-free.
//
// Thread rule: called by the thread that searches, but for hurry() and waits().
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "ebbtide/scheduler/search_pace.hpp"

namespace ebbtide::plugin {

class PolishingPace final : public scheduler::SearchPace {
 public:
  using Time = std::chrono::nanoseconds;
  struct Parts {
    std::function<Time()> used;  // by this thread
    std::function<Time()> left;  // to planning, by now; empty: any amount
    std::function<bool()> wait;  // for a moment; false: nobody waits for the search any more
  };
  // The search uses kLook before it looks at the allowance again. It goes on once that much is
  // left, and as much as it has used at most between two questions.
  static constexpr Time kLook = std::chrono::milliseconds(1);
  static constexpr Time kMostBetween = std::chrono::milliseconds(250);

  explicit PolishingPace(Parts parts) : parts_(std::move(parts)) {}

  // Any thread. True: the result is needed, so the search waits no more; false: it may wait again.
  void hurry(bool hurries) noexcept { hurries_ = hurries; }

  // Any thread: does the search wait just now?
  bool waits() const noexcept { return waits_; }

  void begin(Time longest) override;
  bool isOver() override;

 private:
  bool mayGoOn();  // waits until planning may

  const Parts parts_;
  std::atomic<bool> hurries_{false}, waits_{false};
  Time end_{}, look_at_{}, asked_at_{};
  Time between_ = kLook;  // most time between two questions so far
};

}  // namespace ebbtide::plugin
