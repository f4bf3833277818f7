// UnseenWrites: when to look whether something that tells nobody (NumPy, a pointer) wrote to a
// value, and which ops read it before that showed. Torch-free.
//
//   of any op ── expect(): of one whose results programs write ─► as its op gave it
//                                                                     │ a look finds other bytes
//          noteChanged(op): that op and later ones read what is there ◄┘
//
// A look takes about as long as to read all bytes. So one is due at the first read, and then when
// reads have covered as much: many reads of small parts take no longer than twice their own time.
// What reads since the last look have read is not known. No op that read then is
// run again once a write shows. Thread rule: its owner's lock.
#pragma once

#include <cstdint>
#include <utility>

#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

class UnseenWrites {
 public:
  using OpId = scheduler::OpId;

  void expect() noexcept { expected_ = true; }
  bool expected() const noexcept { return expected_; }
  // Is a look due before this op reads so many bytes of `all_bytes`? Then it is taken. kNone: no
  // op, a tensor is saved.
  bool isLookDue(OpId reader, std::int64_t read_bytes, std::int64_t all_bytes) noexcept {
    if (reader != scheduler::kNone && reader == looked_by_) return false;
    unlooked_bytes_ += read_bytes;
    if (looked_ && unlooked_bytes_ < all_bytes) return false;
    looked_ = true;
    looked_by_ = reader;
    unlooked_bytes_ = 0;
    return true;
  }
  // The same before a replay. At the first one whatever was read before: the program may have
  // written after its last read.
  bool isLookDueInReplay(std::int64_t read_bytes, std::int64_t all_bytes) noexcept {
    if (!std::exchange(replayed_, true)) looked_ = false;
    return isLookDue(scheduler::kNone, read_bytes, all_bytes);
  }
  bool hasUnlookedReads() const noexcept { return unlooked_bytes_ > 0; }

  // Ops before `first` have read, or may have read, other contents than are there now.
  void noteChanged(OpId first) noexcept { first_reader_ = first; }
  bool changed() const noexcept { return first_reader_ != scheduler::kNone; }
  bool changedSince(OpId reader) const noexcept { return changed() && reader < first_reader_; }

 private:
  std::int64_t unlooked_bytes_ = 0;  // read since the last look
  OpId looked_by_ = scheduler::kNone;
  OpId first_reader_ = scheduler::kNone;  // of what is there now
  bool expected_ = false;
  bool looked_ = false;
  bool replayed_ = false;  // an op that reads it was
};

}  // namespace ebbtide::plugin
