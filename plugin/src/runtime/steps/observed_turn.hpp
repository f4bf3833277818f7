// ObservedTurn: which one of the steps that run at once observes the allocator, by its log. A turn
// is handed on from a step that may never end. Torch-free; whoever has it guards it.
#pragma once

#include <cstdint>
#include <memory>

#include "record/log/event_log.hpp"

namespace ebbtide::plugin {

class ObservedTurn {
 public:
  // A step of so many passes, while another thread's waits to be recorded, may never end: its turn
  // is handed on. So is that of a step that so many others overtook without a pass in between: an
  // ordinary one that is slow (a long forward or backward pass, a look at its results before its
  // end) has that long. Twice as often each time that it did end: a step that others overtake 1,000
  // times is waited for from its sixth time on.
  static constexpr std::int64_t kFewPasses = 32, kMostPasses = 1024;
  // A step that lets go of its results unread hands the turn on so many times sooner: at first to
  // the second step that waits. So a budget that is too small is known by the fourth such step.
  static constexpr std::int64_t kSooner = 16;

  // May a step that begins take it? `trains`: false: its thread's steps have run nothing backward
  // so far; it takes no turn from another one.
  bool isFree(bool trains);
  void take(std::shared_ptr<EventLog> log, bool trains);
  // The step with this log is over. False: another step took its place before, or it had none.
  bool release(const std::shared_ptr<EventLog>& log);

  bool isTaken() const { return log_ != nullptr; }
  bool isOf(const EventLog* log) const { return log != nullptr && log_.get() == log; }

 private:
  std::shared_ptr<EventLog> log_;
  bool yields_ = false;                    // its thread has run nothing backward so far
  std::int64_t overtook_ = 0;              // steps that wanted its turn: no new pass, or it loses
  std::int64_t seen_passes_ = 0;           // of it, when the last one did
  std::int64_t most_passes_ = kFewPasses;  // of it while another step waits for its turn
};

}  // namespace ebbtide::plugin
