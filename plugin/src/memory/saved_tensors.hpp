// SavedTensors: the tensors that autograd saved in a step, by the number of their use: which value
// each reads, how often it was unpacked, and how many are left. Torch-free: `View` is how a tensor
// looks at its storage, and this class does not read it.
//
//   add() ─► live ─ moveTo(): another part of its storage is written, and is a new value's ─► live
//                 └ release() ─► endOne(): one live use fewer
//
// Thread rule: count(), live() and anyDetached() from any thread; for the rest, who has it holds
// its own lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/chunked_list.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

template <typename View>
class SavedTensors {
 public:
  using UseId = scheduler::UseId;
  using ValueId = scheduler::ValueId;

  // Which result of which node of the autograd graph the tensor was when it was saved. The node is
  // not to be followed: autograd keeps it as long as the use. nullptr: nobody asks.
  struct Maker {
    const void* node = nullptr;
    std::int64_t output = 0;
  };

  // `view`: what it reads of the value, looked at until it is released.
  UseId add(ValueId value, const View& view, const Maker& maker) {
    uses_.push_back({.value = value, .view = &view, .maker = maker});
    ++count_;
    ++live_;
    return next() - 1;
  }
  UseId next() const { return static_cast<UseId>(uses_.size()); }
  std::int64_t count() const noexcept { return count_; }  // all that were
  std::int64_t live() const noexcept { return live_; }

  ValueId valueOf(UseId use) const { return uses_[use].value; }  // kNone: of none that is known
  void moveTo(UseId use, ValueId value) { uses_[use].value = value; }
  // Of these the ones of whose views that is true.
  template <typename Uses, typename Test>
  std::vector<UseId> where(const Uses& uses, const Test& test) const {
    std::vector<UseId> found;
    for (const UseId use : uses) {
      if (test(*uses_[use].view)) found.push_back(use);
    }
    return found;
  }

  // The tensor that `maker` gave is detached in place: of these uses, those that saved it.
  template <typename Uses>
  void noteDetached(const Uses& uses, const Maker& maker) {
    for (const UseId id : uses) {
      Use& use = uses_[id];
      const bool same = use.maker.node == maker.node && use.maker.output == maker.output;
      use.detached = use.detached || same;
      if (same) any_detached_ = true;
    }
  }
  bool anyDetached() const noexcept { return any_detached_; }  // of all
  bool isDetached(UseId use) const { return uses_[use].detached; }

  std::uint32_t visits(UseId use) const { return uses_[use].visits; }
  std::uint32_t& visits(UseId use) { return uses_[use].visits; }  // events in which it was unpacked
  // Was its graph kept at the last event that the plan knows of it? By how much that changes their
  // number.
  int setLeftOver(UseId use, bool left) {
    const bool before = std::exchange(uses_[use].left_over, left);
    return static_cast<int>(left) - static_cast<int>(before);
  }
  bool isLeftOver(UseId use) const { return uses_[use].left_over; }

  bool release(UseId use) { return !std::exchange(uses_[use].released, true); }  // false: again
  std::int64_t endOne() noexcept { return --live_; }  // what was released; gives how many are left

  void addTo(scheduler::Trace& trace) const {
    for (const Use& use : uses_) trace.use_value.push_back(use.value);
  }

 private:
  struct Use {
    ValueId value = scheduler::kNone;
    const View* view = nullptr;
    Maker maker = {};
    std::uint32_t visits = 0;
    bool released = false;
    bool left_over = false;
    bool detached = false;
  };

  ChunkedList<Use> uses_;
  std::atomic<std::int64_t> count_{0};
  std::atomic<std::int64_t> live_{0};
  std::atomic<bool> any_detached_{false};
};

}  // namespace ebbtide::plugin
