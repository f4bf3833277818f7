// OpLog: the ops of a step in the program's order, with their op records and signatures, for
// replays and for the trace. Includes torch.
//
// Thread rule: one thread begins ops, and writes the last one while it runs; it reads all without
// the step's lock, and other threads with it.
#pragma once

#include <cstdint>
#include <string>

#include "base/chunked_list.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "execute/run_op.hpp"
#include "execute/step_lock.hpp"

namespace ebbtide::plugin {

class OpLog {
 public:
  RunOp& begin(const StepLock::Held&, ValueId first_value, UseId first_use);
  void removeLast(const StepLock::Held&) { ops_.pop_back(); }  // it turned out to be none
  OpId next() const { return static_cast<OpId>(ops_.size()); }
  // A step that never ends: no parameter is written.
  bool outgrown() const noexcept { return ops_.size() > kMostOps; }

  RunOp& operator[](OpId op) { return ops_[op]; }
  const RunOp& operator[](OpId op) const { return ops_[op]; }
  const std::string& nameOf(OpId op) const {
    return ops_.at(static_cast<std::size_t>(op)).info->name;
  }
  // The op is not run again. For kNone, the maker of graph inputs, nothing is done.
  void keep(const StepLock::Held&, OpId op, const char* why) {
    if (op != scheduler::kNone) ops_[op].kept_because = why;
  }

  // The trace's ops and its signature. May wait for the device: their times are read.
  void addTo(const StepLock::Held&, scheduler::Trace& trace);

 private:
  static constexpr std::size_t kMostOps = 200'000;

  ChunkedList<RunOp> ops_;
};

}  // namespace ebbtide::plugin
