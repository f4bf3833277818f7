// ValueReaders: who needs a value: tensors that are saved, and replays without a plan. Torch-free.
//
//   saved ─► a live use ─► ended, or passed to the value that its storage holds now
//
//   dropped, to be computed again ─► recomputable: a reader of each input of its op
//       ▲                                 │ nobody needs it
//       └─────────────────────────────────┘
//
// A transition that is out of order changes nothing and gives false. Thread rule: its owner's lock.
#pragma once

#include <cstdint>
#include <utility>

namespace ebbtide::plugin {

class ValueReaders {
 public:
  std::int32_t liveUses() const noexcept { return live_uses_; }
  std::int32_t readers() const noexcept { return readers_; }  // recomputable values
  // Do the inputs of its op count it among their readers?
  bool recomputable() const noexcept { return recomputable_; }
  bool isNeeded() const noexcept { return live_uses_ > 0 || readers_ > 0; }

  // --- saved tensors
  void beginUse() noexcept { ++live_uses_; }
  bool endUses(std::int32_t uses) noexcept {  // refused: there are not so many
    if (uses < 0 || uses > live_uses_) return false;
    live_uses_ -= uses;
    return true;
  }
  void passUsesTo(ValueReaders& successor) noexcept {
    successor.live_uses_ += std::exchange(live_uses_, 0);
  }

  // --- replays
  bool beginRecomputable() noexcept { return !std::exchange(recomputable_, true); }
  bool endRecomputable() noexcept { return std::exchange(recomputable_, false); }
  void beginReader() noexcept { ++readers_; }
  bool endReader() noexcept {  // refused: there is none
    if (readers_ == 0) return false;
    --readers_;
    return true;
  }
  void forgetReplays() noexcept {  // no op runs again any more, neither its own
    readers_ = 0;
    recomputable_ = false;
  }

 private:
  std::int32_t live_uses_ = 0;
  std::int32_t readers_ = 0;
  bool recomputable_ = false;
};

}  // namespace ebbtide::plugin
