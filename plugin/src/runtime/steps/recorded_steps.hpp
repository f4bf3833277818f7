// RecordedSteps: of each program that runs lately the step that was recorded last: what a budget is
// planned for, and the curve drawn of. Torch-free; whoever has it guards it.
//
//   programs   S M S M S M M M …   M follows its plan, and is recorded no more: its last one stays
//              └─ lately ──────┘
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

struct RecordedStep {
  std::shared_ptr<const scheduler::Trace> trace;  // nullptr: none
  bool first_step = false;                        // of the process
  bool alone = true;                              // no other step was alive at its end
};

class RecordedSteps {
 public:
  static constexpr std::size_t kMost = 8;           // programs; of more, those that hold most
  static constexpr std::size_t kMostOps = 200'000;  // of all programs but the last one: 0.2 GB
  // The last steps whose program is known. A program without a step among these runs no more.
  static constexpr std::int64_t kLately = 1000;

  // A step of this program is over.
  void noteStep(std::uint64_t program);
  // It was recorded; in place of the one before.
  void add(RecordedStep step);

  std::size_t size() const { return programs_.size(); }
  std::vector<RecordedStep> all() const;
  RecordedStep largest() const;  // of that program whose step holds most

 private:
  struct Recorded {
    RecordedStep step;
    std::int64_t held_bytes = 0;
    std::int64_t last_step = 0;  // of it
  };

  static bool holdsLess(const Recorded& a, const Recorded& b) {
    return a.held_bytes < b.held_bytes;
  }
  void forgetOld();

  std::vector<Recorded> programs_;
  std::int64_t steps_ = 0;
};

}  // namespace ebbtide::plugin
