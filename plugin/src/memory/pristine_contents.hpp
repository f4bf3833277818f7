// PristineContents: what a value had before the program wrote to it beside the plan, for replays
// that still read that. Torch-free: `Storage` is a reference, none by default.
//
//   as it was ── noteMayBeWritten() ─► what was there is not sure any more
//       └── keep() ─► kept: what ops before `until` read is here ── take() ─► not kept
//
// Thread rule: its owner's lock.
#pragma once

#include <limits>
#include <utility>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

template <typename Storage>
class PristineContents {
 public:
  const Storage& pristine() const noexcept { return contents_; }
  // Are the kept contents what this op read? Ops from `until` on may have read others: no version
  // counter need show the first write.
  bool isPristineFor(scheduler::OpId reader) const noexcept { return contents_ && reader < until_; }
  // May the program write to it in place? The write need not have begun.
  bool mayBeWritten() const noexcept { return may_be_written_; }

  void noteMayBeWritten() noexcept { may_be_written_ = true; }
  // `until`: the first op that may read others. Gives what was kept before.
  Storage keep(Storage contents, scheduler::OpId until) noexcept {
    until_ = until;
    return std::exchange(contents_, std::move(contents));
  }
  Storage take() noexcept { return std::exchange(contents_, Storage()); }

 private:
  Storage contents_;
  scheduler::OpId until_ = std::numeric_limits<scheduler::OpId>::max();
  bool may_be_written_ = false;
};

}  // namespace ebbtide::plugin
