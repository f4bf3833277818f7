// KeptGraphs: graphs that the program keeps to run them backward again: may a pass come that the
// plan does not know, and what would its replays read? Torch-free.
//
//   value ─► replayed op ─► value ─► replayed op ─► value that is saved: a replay for it reads both
//
// Which values are saved the caller says, by what it passes as `saved`. What is held for such a
// pass alone is watched: it is looked at again when the value is saved no more whose replay would
// read it, so that each is looked at few times however many there are.
//
// Thread rule: beginUnpack(), keepsNow(), keptEver() and watchesAny() from any thread; whoever has
// it guards the rest.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace ebbtide::plugin {

class KeptGraphs {
 public:
  // --- may a pass come that the plan does not know?
  void beginUnpack(bool keeps_graph) noexcept {
    if (keeps_now_ != keeps_graph) keeps_now_ = keeps_graph;
    if (keeps_graph) kept_ever_ = true;
  }
  bool keepsNow() const noexcept { return keeps_now_; }  // after the present backward pass
  bool keptEver() const noexcept { return kept_ever_; }  // it may be run backward some time
  // Of uses that are alive, of graphs that were kept at the last unpack that the plan knows.
  void addLeftOver(int uses) { left_over_uses_ += uses; }
  // `expected`: the recorded step ran its graph again too, so that the plan knows what the last
  // time is; but for a graph that is still kept after the last time that the plan knows.
  bool mayRunAgain(bool expected) const {
    const bool last_time = expected && !keeps_now_ && left_over_uses_ == 0;
    return kept_ever_ && !last_time;
  }

  // --- what would its replays read?
  OpId nextOp() const { return next_op_; }  // to be added, in their order
  // `inputs`: of its op record; none where it has none.
  template <typename Values>
  void addOp(const Values& inputs, const Values& outputs);
  // A saved value whose replay reads this one; Asker::kMany: too many values to look at them all.
  struct Asker {
    static constexpr ValueId kMany = scheduler::kNone;

    bool any = false;
    ValueId value = kMany;
  };
  template <typename Saved>
  Asker askerOf(ValueId id, const Saved& saved) const;

  // --- what is held for that alone
  void hold(ValueId id) { due_.push_back(id), watches_any_ = true; }
  void holdFor(const Asker& asker, ValueId id) {
    held_[asker.value].push_back(id);
    watches_any_ = true;
  }
  bool watchesAny() const noexcept { return watches_any_; }  // false: takeDue() would give nothing
  void noteUnsaved(ValueId value);
  // What may go, unless it is asked for again. `all`: no such pass can come any more.
  std::vector<ValueId> takeDue(bool all);
  void forgetHeld() { held_.clear(), due_.clear(), watches_any_ = false; }

 private:
  static constexpr std::size_t kMostLooked = 256;  // values

  std::atomic<bool> kept_ever_{false}, keeps_now_{false};
  std::int64_t left_over_uses_ = 0;
  OpId next_op_ = 0;
  std::unordered_map<ValueId, std::vector<ValueId>> made_from_;  // by one replay
  std::unordered_map<ValueId, std::vector<ValueId>> held_;       // by asker
  std::vector<ValueId> due_;
  std::atomic<bool> watches_any_{false};
};

template <typename Values>
void KeptGraphs::addOp(const Values& inputs, const Values& outputs) {
  for (const ValueId input : inputs) {
    auto& made = made_from_[input];
    made.insert(made.end(), outputs.begin(), outputs.end());
  }
  ++next_op_;
}

template <typename Saved>
KeptGraphs::Asker KeptGraphs::askerOf(ValueId id, const Saved& saved) const {
  std::vector<ValueId> seen = {id};
  for (std::size_t i = 0; i < seen.size() && i < kMostLooked; ++i) {
    const auto made = made_from_.find(seen[i]);
    if (made == made_from_.end()) continue;
    for (const ValueId output : made->second) {
      if (saved(output)) return {true, output};
      if (std::find(seen.begin(), seen.end(), output) == seen.end()) seen.push_back(output);
    }
  }
  return {seen.size() > kMostLooked, Asker::kMany};
}

}  // namespace ebbtide::plugin
