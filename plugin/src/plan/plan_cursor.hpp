// PlanCursor: where a step is in the backward part of its plan: at which event, and before which
// receive. Torch-free.
//
//   … ops ─► receive ─► receive ─► event 0 ─► … ─► receive ─► event 1 ─► …
//            each is waited for: what the plan replays there runs when the program has asked for
//            the last message of the row
//
// An event begins with its first unpack. It goes on as long as nothing comes between two unpacks:
// no node begins, no use is released and no op runs (graph_builder.cpp tells them apart so too).
//
// Thread rule: touch(), boundary(), next() and expectsReceives() from any thread; noteMessage() and
// reached() are the training thread's; whoever restores guards the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace ebbtide::plugin {

class PlanCursor {
 public:
  // From its beginning. The plan must outlive its use here; nullptr: none.
  void follow(const Plan* plan);

  // A node begins, a use is released, an op has run.
  void touch() noexcept { ++boundary_; }
  std::uint64_t boundary() const noexcept { return boundary_; }  // how often

  // --- events
  std::int32_t next() const noexcept { return next_; }
  std::int32_t current() const { return current_; }  // kNone: it is over
  // That an unpack of the plan's use belongs to: the present one, or the next in which the recorded
  // step unpacked it; kNone: there is none. `visits`: events in which it was unpacked so far.
  std::int32_t eventOf(UseId planned, std::uint32_t& visits) const;
  bool isNext(std::int32_t event) const {
    return event != scheduler::kNone && !done_[event] && event == next_;
  }
  void begin(std::int32_t event);
  void passPrelude() { next_ = current_ + 1; }  // of the present one
  std::int32_t end();                           // that was the present one

  // --- receives
  bool expectsReceives() const noexcept { return expects_receives_; }
  // The program asks for a message when so many of the plan's ops have begun.
  void noteMessage(OpId ops) noexcept;
  // Was the last one what the plan's next wait is for, or one after it at the same event? nullptr:
  // not yet, or no more.
  const Plan::Wait* reached() const;
  // A wait that did not come by this event; nullptr: none is left.
  const Plan::Wait* due(std::int32_t event) const;
  void passWait() { ++next_wait_; }

 private:
  struct Place {  // as Plan::Wait's
    OpId ops = scheduler::kNone;
    std::int32_t event = scheduler::kNone;
    int before = 0;
  };

  const Plan::Wait* nextWait() const;

  const Plan* plan_ = nullptr;
  std::atomic<std::uint64_t> boundary_{0};
  std::uint64_t event_boundary_ = 0;  // when the present event began
  std::int32_t current_ = scheduler::kNone;
  std::atomic<std::int32_t> next_{0};
  std::vector<bool> done_;
  std::atomic<bool> expects_receives_{false};
  std::size_t next_wait_ = 0;
  Place last_message_;
};

}  // namespace ebbtide::plugin
