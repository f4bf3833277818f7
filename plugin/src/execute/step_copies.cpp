// Values kept as one bit a word, or on the host, between a drop of the plan and the event that
// reads them again.
#include <algorithm>

#include "base/elapsed.hpp"
#include "base/thread_scopes.hpp"
#include "device/fingerprint.hpp"
#include "ebbtide/allocator/bytes.hpp"
#include "execute/step_run_state.hpp"
#include "execute/traced_scope.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kCodeFloor = 32 << 10;  // smaller values are not worth an entry in the plan
constexpr std::int64_t kPage = 4096;           // encoded copies are counted in whole ones

// The first code of at most `widest` bytes a word that encodes all of it; `room(bytes)` gives where
// to.
template <typename Room>
std::optional<BitCode> encodeWhole(const void* data, std::int64_t bytes, const Room& room) {
  for (int widest = 8; widest > 0;) {
    std::optional<BitCode> code = BitCode::guess(data, bytes, widest);
    if (!code || code->encode(data, bytes, room(code->encodedBytes(bytes)))) return code;
    widest = code->word_bytes / 2;
  }
  return std::nullopt;
}

}  // namespace

// Called with mutex_ held, when the value is born: can it be encoded, and what does it take? The
// plan knows it of its steps.
void StepRun::tryCode(const RunOp& op, ValueId id) {
  RunValue& value = values_[id];
  if (value.block == kNone || value.uninitialised || value.bytes < kCodeFloor) return;
  if (!device_.contents.onHost()) return;
  const std::int64_t block_bytes = session_.memory().blockBytes(value.data);
  const bool known = op.on_plan && !follower_.offPlan() && !follower_.unplanned(id);
  // An op without inputs has the same signature whatever the size of what it makes.
  if (known && follower_.codecOf(id).block_bytes == block_bytes) {
    value.codec = follower_.codecOf(id);
    return;
  }
  const auto start = Clock::now();
  std::vector<char> bits;
  const auto room = [&bits](std::int64_t bytes) {
    bits.resize(static_cast<std::size_t>(bytes));
    return bits.data();
  };
  if (!encodeWhole(value.data, value.bytes, room)) return;
  const auto encoded_bytes = static_cast<std::int64_t>(bits.size());
  // To decode takes about as long.
  value.codec = {block_bytes, std::min((encoded_bytes + kPage - 1) / kPage * kPage, value.bytes),
                 2 * nanosecondsSince(start)};
}

// Called with mutex_ held. Is a fetch of the plan still to come?
bool StepRun::fetchedLater(ValueId id, const RunValue& value) const {
  return value.fetches_done < follower_.fetchesOf(id);
}

// Called with mutex_ held. Would dropping it lose the value? The plan keeps no recipe of what it
// fetches. True where neither bits nor the host have a copy, and something still reads the value: a
// fetch to come, a use that lives, or a replay of a kept graph.
bool StepRun::onlyCopy(ValueId id, const RunValue& value) {
  return follower_.fetchesOf(id) > 0 && !copiedByPlan(id, value) &&
         (value.live_uses > 0 || fetchedLater(id, value) || isAskedFor(id));
}

// Called with mutex_ held. By a replay that the plan does not know, for what is still saved?
bool StepRun::isAskedFor(ValueId id) {
  return follower_.plan() && mayRunBeyondPlan() && savedReader(id).any;
}

// Called with mutex_ held. For what that is still saved would a replay read it?
KeptGraphs::Asker StepRun::savedReader(ValueId id) {
  const auto end = static_cast<OpId>(ops_.size());
  for (OpId next = kept_graphs_.nextOp(); next < end; ++next) {
    const RunOp& op = ops_[next];
    if (!op.finished && next + 1 == end) break;  // it runs
    kept_graphs_.addOp(op.recipe ? op.inputs : std::vector<ValueId>(), op.outputs);
  }
  return kept_graphs_.askerOf(id, [this](ValueId value) { return values_[value].live_uses > 0; });
}

// Called with mutex_ held. Values of kept graphs that nothing can ask for any more.
void StepRun::giveUpUnasked() {
  if (follower_.offPlan()) return kept_graphs_.forgetHeld();
  const bool may_run = mayRunBeyondPlan();
  for (const ValueId id : kept_graphs_.takeDue(!may_run)) {
    if (const auto asker = may_run ? savedReader(id) : KeptGraphs::Asker(); asker.any) {
      kept_graphs_.holdFor(asker, id);
      continue;
    }
    RunValue& value = values_[id];
    const bool needed =
        isNeeded(value) || value.made_again || value.rejected || value.stored.stale();
    if (needed || fetchedLater(id, value)) continue;
    if (value.stored.held().use_count() == 1) noteNaturalDeath(id, value);
    giveUp(value);
    giveUpCopies(value);
  }
}

// Called with mutex_ held. What is saved no more cannot be asked for.
bool StepRun::mayRunBeyondPlan() const {
  return live_uses_ > 0 && kept_graphs_.mayRunAgain(follower_.plan()->expects_kept_graphs);
}

// Called with mutex_ held. Dropped, then, though the program may still hold and save it.
bool StepRun::copiedByPlan(ValueId id, const RunValue& value) const {
  return value.stored.bits() ||
         (value.stored.slot() && (value.stored.servesLater() || fetchedLater(id, value)) &&
          follower_.isOnHost(id));
}

// Called with mutex_ held. Its graph is kept: another pass may ask for the value, and the plan need
// not hold it for that.
bool StepRun::staysOnHost(ValueId id, const RunValue& value) const {
  const bool by_plan = !follower_.offPlan() && follower_.planned(id, &Plan::on_host);
  const bool kept =
      by_plan && (kept_graphs_.keepsNow() || follower_.planned(id, &Plan::saved_longer));
  return kept && value.live_uses > 0 && device_.contents.onHost() &&
         value.stored.slot()->bytes == value.bytes;
}

// Called with mutex_ held, when the slot has been read.
void StepRun::noteFetched(ValueId id, RunValue& value) {
  if (staysOnHost(id, value)) {
    value.stored.keepSlot();
  } else {
    giveUpSlot(value);
  }
}

// Called with mutex_ held. May what was fetched go, and the slot serve later passes? Not where the
// program wrote to it, which nothing but the bytes may tell, or may still do so.
bool StepRun::isStillOnHost(const RunValue& value) const {
  const c10::Storage& held = value.stored.held();
  const SpillTarget::Slot& slot = *value.stored.slot();
  if (!held) return true;  // it went before
  return held.use_count() == 1 && static_cast<std::int64_t>(held.nbytes()) == slot.bytes &&
         session_.spills().equals(slot, held.data());
}

// Before a drop after which the plan wants the value again. Without mutex_: it allocates.
void StepRun::makeCopy(ValueId id) {
  c10::Storage present;
  RunValue* found = nullptr;
  ValueId planned = kNone;
  auto extent = Fingerprint::Extent::kSample;
  {
    const Locked lock(*this);
    planned = follower_.plannedValue(id);
    if (planned == kNone || follower_.plan()->fetches_of[planned] == 0) return;
    RunValue& value = *(found = &values_[id]);
    if (!fetchedLater(id, value) || value.stored.bits() || value.stored.slot()) return;
    if (follower_.rehearses() && value.live_uses > 0) return;  // kept anyway
    present = value.stored.storage();
    if (!present) return;
    if (value.print) extent = value.print->extent();
    // Until it is copied; the program may let go of it.
    if (!value.stored.held() && options_.log && !value.stored.replaced())
      shared_with_program_.push_back(id);
    value.stored.hold(present);
    if (!follower_.plan()->on_host[planned])
      value.codec = {};  // until it is encoded in this step too
    const bool as_born = !value.stored.overwritten() && !value.stored.stale() &&
                         (value.stored.replaced() || value.intact());
    if (!as_born || static_cast<std::int64_t>(present.nbytes()) != value.bytes) return;
  }
  if (follower_.plan()->on_host[planned]) {
    offload(*found, present);
  } else {
    encode(*found, planned, present);
  }
  // The program holds it too: whether its block was written unseen is to be told when it is freed.
  if (present.use_count() <= 2) return;
  const auto print = verifier_.printOf(*found, present, extent);
  const Locked lock(*this);
  found->print = print;
}

void StepRun::encode(RunValue& value, ValueId planned, const c10::Storage& present) {
  const TracedScope traced(session_.runTrace(), TracedSpan::Kind::kEncode, nullptr, value.bytes);
  const auto start = Clock::now();
  c10::Storage bits;
  std::optional<BitCode> code;
  try {
    const EventLog::OursScope ours;
    const TrialScope trial;  // no error of the program's
    code = encodeWhole(present.data(), static_cast<std::int64_t>(present.nbytes()),
                       [this, &bits](std::int64_t bytes) {
                         bits = device_.blocks.allocate(static_cast<std::size_t>(bytes));
                         return bits.mutable_data();
                       });
  } catch (const std::exception&) {  // no memory for it: the value stays
    return;
  }
  if (!code) return;  // another kind of word than in the recorded step
  const Locked lock(*this);
  value.codec = follower_.plan()->codec[planned];
  c10::Storage older = value.stored.setBits(*code, std::move(bits));
  if (older) given_up_.push_back(std::move(older));
  session_.counters().addCode(0, nanosecondsSince(start));
}

// Where it cannot be written the value stays, and is spilled or kept as others are.
void StepRun::offload(RunValue& value, const c10::Storage& present) {
  const TracedScope traced(session_.runTrace(), TracedSpan::Kind::kSpill, nullptr, value.bytes);
  const auto start = Clock::now();
  const auto bytes = static_cast<std::int64_t>(present.nbytes());
  // The value's, and this one. Who else frees it knows of no copy that is under way.
  const bool ours_alone = present.use_count() <= 2 && device_.blocks.isOurs(present);
  const auto slot = session_.spills().write(
      present.data(), bytes,
      ours_alone ? SpillTarget::Afterwards::kFreed : SpillTarget::Afterwards::kWritten);
  if (!slot) {
    // Pinned memory may be full for a moment.
    if (device_.contents.onHost()) session_.noteSpillFailed();
    return;
  }
  const Locked lock(*this);
  if (value.stored.slot()) {  // meanwhile, under pressure
    session_.spills().release(*slot);
    return;
  }
  value.stored.addSlot(*slot);
  session_.counters().addOffload(bytes, nanosecondsSince(start));
}

c10::Storage StepRun::decode(RunValue& value) {
  const TracedScope traced(session_.runTrace(), TracedSpan::Kind::kDecode, nullptr, value.bytes);
  const auto start = Clock::now();
  const EventLog::OursScope ours;
  c10::Storage storage = device_.blocks.allocate(static_cast<std::size_t>(value.bytes));
  c10::Storage bits;
  {
    const Locked lock(*this);
    if (value.stored.held()) return value.stored.held();
    bits = value.stored.bits();
  }
  value.stored.code()->decode(bits.data(), value.bytes, storage.mutable_data());
  const Locked lock(*this);
  if (value.stored.held()) return value.stored.held();
  value.stored.replace(storage);
  session_.counters().addCode(1, nanosecondsSince(start));
  return storage;
}

// A fetch of the plan: the value stays until the plan drops it.
void StepRun::fetchCopy(ValueId planned) {
  const ValueId id = stepsValue(planned);
  {
    // Written over since, beside the plan: its uses read what is there now, replays what was
    // before.
    const Locked lock(*this);
    if (values_[id].stored.successor() != kNone || values_[id].pristine) return;
  }
  const auto start = Clock::now();
  c10::Storage storage = materialize(id, 0);
  if (follower_.plan()->on_host[planned])
    session_.counters().addOffload(0, nanosecondsSince(start));
  const Locked lock(*this);
  RunValue& value = values_[id];
  value.stored.hold(std::move(storage));
  value.stored.endAwait();
  value.release_after_uses = false;
  ++value.fetches_done;
}

// Called with mutex_ held.
void StepRun::giveUpCode(RunValue& value) {
  if (c10::Storage bits = value.stored.takeBits()) given_up_.push_back(std::move(bits));
}

void StepRun::giveUpCopies(RunValue& value) {
  giveUpCode(value);
  giveUpSlot(value);
}

// Called with mutex_ held.
void StepRun::giveUpSlot(RunValue& value) {
  if (const auto slot = value.stored.takeSlot()) session_.spills().release(*slot);
}

}  // namespace ebbtide::plugin
