// StoredValue: where the contents of a value are, and what they are good for. The only writer of
// both. Torch-free: `Storages` says what a storage is.
//
//                     hold()               awaitLetGo()
//   the program's ──────────────► held ─────────────────► awaited: until the program lets go
//        ▲  ▲                    │  ▲  │                     │
//        │  └─ release(), take()─┘  │  └─ overwrite(in use), keepWritten() ─► stale: for its uses
//        │                          │                                           alone
//   hold() of what lives    replace(), by what comes back
//                                   │
//   gone ─┬─ on the host: a slot ───┤      A value that is held may have a slot or bits beside it,
//         ├─ as bits ───────────────┤      for fetches to come. state() says what it comes back
//         └─ dropped: by its op ────┘      from first.
//
// A transition that is out of order changes nothing but that the value is kept, and tells
// Storages::refused(), which may throw: of a value that stays nothing is lost.
//
// What goes is handed to the caller, who frees it where it holds no lock. Thread rule: its owner's
// lock.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "device/bit_code.hpp"
#include "device/spill_target.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

// What a value comes back from now, the quickest first.
enum class ValueState : std::uint8_t {
  kHeld,     // our reference
  kAwaited,  // as held; the plan dropped it, and it goes when the program lets go of it
  kStale,    // as held, but written since: uses read it as PyTorch would, replays must not
  kWeak,     // a storage that lives, by the program's reference
  kOnHost,   // its slot
  kEncoded,  // its bits
  kDropped,  // its op alone
};

// `Storages`: Strong and Weak, references to a storage, none by default; lock(weak), weakly(strong)
// and expired(weak); same(strong, strong); refused(transition).
template <typename Storages>
class StoredValue {
 public:
  using Strong = typename Storages::Strong;
  using Weak = typename Storages::Weak;
  using Slot = SpillTarget::Slot;
  using ValueId = scheduler::ValueId;

  // --- what there is
  ValueState state() const {
    if (held_) {
      if (stale()) return ValueState::kStale;
      return late_ ? ValueState::kAwaited : ValueState::kHeld;
    }
    if (!expired()) return ValueState::kWeak;
    if (slot_) return ValueState::kOnHost;
    return bits_ ? ValueState::kEncoded : ValueState::kDropped;
  }
  const Strong& held() const noexcept { return held_; }
  // With the contents now, ours or the program's.
  Strong storage() const { return held_ ? held_ : Storages::lock(copy_); }
  Strong copy() const { return Storages::lock(copy_); }
  bool expired() const { return Storages::expired(copy_); }  // the copy, by anybody's reference
  const std::optional<Slot>& slot() const noexcept { return slot_; }
  const Strong& bits() const noexcept { return bits_; }
  const std::optional<BitCode>& code() const noexcept { return code_; }  // of the bits
  // --- what it is good for
  bool kept() const noexcept { return kept_; }  // no replay would give what its uses must read
  bool awaited() const noexcept { return late_ && held_; }
  bool isLate() const noexcept { return late_; }  // awaited, or taken while it was
  bool stale() const noexcept {
    return contents_ == Contents::kForUses || contents_ == Contents::kOverwrittenInUse;
  }
  // The first copy holds other contents now.
  bool overwritten() const noexcept {
    return contents_ != Contents::kAsBorn && contents_ != Contents::kForUses;
  }
  // That holds what its uses read, who went on to it; kNone: they did not.
  ValueId successor() const noexcept { return successor_; }
  // The copy is a replayed or fetched one, not the program's.
  bool replaced() const noexcept { return copy_is_ == Copy::kReplaced; }
  // The slot is what the value was fetched from, and serves later passes.
  bool servesLater() const noexcept { return slot_serves_later_; }

  // --- transitions of our reference. Those that return bool: false: refused.
  void begin(const Strong& first) { copy_ = Storages::weakly(first); }
  bool hold(const Strong& storage) { return hold(Strong(storage)); }
  bool hold(Strong&& storage) {  // left to the caller if refused
    if (!storage || (held_ && !Storages::same(held_, storage))) return refuse("hold");
    held_ = std::exchange(storage, Strong());
    return true;
  }
  void holdIfAlive() {  // the copy, whose ever it is
    if (!held_) held_ = Storages::lock(copy_);
  }
  // Of the program's storage, which something unseen may still write; false: it is gone, or was
  // awaited before.
  bool awaitLetGo() {
    holdIfAlive();
    if (!held_) return false;
    return !std::exchange(late_, true);
  }
  void endAwait() noexcept { late_ = false; }
  Strong release() noexcept {  // ours; none: it was not held
    late_ = false;
    return std::exchange(held_, Strong());
  }
  // As release(), by who needs memory. What was awaited is late until endAwait().
  Strong take() {
    if (!held_) {
      refuse("take");
      return Strong();
    }
    return std::exchange(held_, Strong());
  }
  // To a replay that may write it: nobody finds it here any more.
  Strong handOver() {
    Strong given = take();
    if (given) copy_ = Weak(Storages::none());
    return given;
  }
  // By a replayed or fetched copy, of a value that is not held.
  bool replace(const Strong& storage) {
    if (held_ || !storage) return refuse("replace");
    held_ = storage;
    late_ = false;
    copy_ = Storages::weakly(storage);
    copy_is_ = Copy::kReplaced;
    return true;
  }
  // The program let go of the first copy. False: it is known, or the copy is ours.
  bool noteLetGo() noexcept {
    if (copy_is_ != Copy::kPrograms) return false;
    copy_is_ = Copy::kLetGo;
    return true;
  }

  // --- transitions of the contents
  void keep() noexcept { kept_ = true; }
  // What the program writes next is another value's. `in_use`: uses are left, who read what is
  // there now. Gives what nobody reads any more.
  Strong overwrite(bool in_use) {
    if (overwritten()) {
      refuse("overwrite");
      return Strong();
    }
    Strong last;
    if (in_use) {
      holdIfAlive();
      kept_ = true;
    } else {
      last = release();
    }
    const bool for_uses = in_use || contents_ == Contents::kForUses;
    contents_ = for_uses ? Contents::kOverwrittenInUse : Contents::kOverwritten;
    copy_ = Weak(Storages::none());
    return last;
  }
  // Its uses, if any are left, go on to the value that is there now. Gives our reference.
  Strong passOn(ValueId successor) {
    if (contents_ != Contents::kOverwrittenInUse) {
      refuse("pass on");
      return Strong();
    }
    contents_ = Contents::kPassedOn;
    successor_ = successor;
    return release();
  }
  bool passFurther(ValueId successor) {  // as that one has
    if (contents_ != Contents::kPassedOn) return refuse("pass further");
    successor_ = successor;
    return true;
  }
  // What is held was written by something unseen.
  bool keepWritten() {
    if (!held_ || overwritten()) return refuse("keep what was written");
    kept_ = true;
    contents_ = Contents::kForUses;
    return true;
  }
  // The block that the program has freed was. Left to the caller if refused.
  bool adoptWritten(Strong&& storage) {
    if (held_ || !storage || overwritten()) return refuse("adopt what was written");
    held_ = std::exchange(storage, Strong());
    return keepWritten();
  }

  // --- transitions of the copies beside it
  bool addSlot(const Slot& slot) {
    if (slot_) return refuse("add a slot");
    slot_ = slot;
    return true;
  }
  bool keepSlot() {  // it was read, and another pass may read it
    if (!slot_) return refuse("keep a slot");
    slot_serves_later_ = true;
    return true;
  }
  // To be released by the caller; nothing: there is none.
  std::optional<Slot> takeSlot() noexcept {
    slot_serves_later_ = false;
    return std::exchange(slot_, std::nullopt);
  }
  Strong setBits(const BitCode& code, Strong bits) {  // gives those that were there
    code_ = code;
    return std::exchange(bits_, std::move(bits));
  }
  Strong takeBits() noexcept { return std::exchange(bits_, Strong()); }

 private:
  enum class Contents : std::uint8_t {
    kAsBorn,
    kForUses,           // written unseen: its uses read it, replays must not
    kOverwritten,       // of no use then; a replay may give what was there
    kOverwrittenInUse,  // its uses read what is there
    kPassedOn,          // and now read it as the successor's
  };
  enum class Copy : std::uint8_t { kPrograms, kLetGo, kReplaced };

  bool refuse(const char* transition) {
    kept_ = true;
    Storages::refused(transition);
    return false;
  }

  Weak copy_ = Weak(Storages::none());  // storage that has these contents now
  Strong held_;                         // our reference to it
  std::optional<Slot> slot_;
  std::optional<BitCode> code_;
  Strong bits_;  // one a word
  ValueId successor_ = scheduler::kNone;
  Contents contents_ = Contents::kAsBorn;
  Copy copy_is_ = Copy::kPrograms;
  bool late_ = false;
  bool slot_serves_later_ = false;
  bool kept_ = false;
};

}  // namespace ebbtide::plugin
