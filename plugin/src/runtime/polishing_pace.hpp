// PolishingPace: how a search for a better plan spends processor time. It ends by what it has used,
// as at the lowest priority it may run little; and it waits while planning has used what it may.
// Torch-free.
//
// Thread rule: of the thread that searches, but for hurry().
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
  // What it uses before it looks again whether it may; and so much, or as much as it has used from
  // one question to the next, is there when it goes on.
  static constexpr Time kLook = std::chrono::milliseconds(1);
  static constexpr Time kMostBetween = std::chrono::milliseconds(250);

  explicit PolishingPace(Parts parts) : parts_(std::move(parts)) {}

  // Any thread: what is found is needed, and the search waits no more; false: it may again.
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
  Time between_ = kLook;  // two questions, at most
};

}  // namespace ebbtide::plugin
