#include "execute/evictor.hpp"

#include <algorithm>
#include <utility>

#include "base/elapsed.hpp"
#include "base/thread_scopes.hpp"
#include "execute/traced_scope.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::kNone;

constexpr std::size_t kMostChainOps = 16;  // run again for one restore
constexpr OpId kNeighbours = 8;            // ops

// The op that runs meanwhile is not slower for it.
class EvictionTime {
 public:
  ~EvictionTime() { evictionNs() += nanosecondsSince(start_); }

 private:
  Clock::time_point start_ = Clock::now();
};

template <typename T>
bool contains(const std::vector<T>& list, T wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

}  // namespace

// Until the budget suffices. Under a plan, and in its verification step, those used last go first,
// to the spill file.
std::int64_t Evictor::evict(std::int64_t need_bytes) noexcept try {
  if (allowed_.keepsEverything() || !allowed_.mayGiveUp()) return 0;
  if (device_.lanes.capture() != DeviceLanes::Capture::kNone) return 0;
  const LaneScope lane(device_.lanes, lane_);
  const EvictionTime timed;
  allowed_.notePressure();
  const bool by_cost = computesAgain();
  if (by_cost) spill_bytes_per_second_ = trained_.hostCopies().bytes_per_second;
  bool spills = !trained_.hostRefuses();
  std::int64_t freed = evict(need_bytes, by_cost, spills);
  if (spills || !by_cost || freed >= need_bytes) return freed;
  spill_bytes_per_second_ = 0;  // what was cheaper to spill may still be computed again
  return freed + evict(need_bytes - freed, by_cost, spills);
} catch (...) {
  return 0;
}

// `spills`: false: nothing can be written to the host, so that only what is computed again goes.
std::int64_t Evictor::evict(std::int64_t need_bytes, bool by_cost, bool& spills) {
  std::vector<Victim> queue = victims();
  const auto later = [](const Victim& a, const Victim& b) { return a.score > b.score; };
  std::make_heap(queue.begin(), queue.end(), later);
  std::int64_t freed = 0;
  while (freed < need_bytes && !queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), later);
    Victim victim = queue.back();
    queue.pop_back();
    if (by_cost && !victim.exact) {
      victim.score = exactScore(victim.value);
      victim.exact = true;
      if (!queue.empty() && victim.score > queue.front().score) {
        queue.push_back(victim);
        std::push_heap(queue.begin(), queue.end(), later);
        continue;
      }
    }
    const std::int64_t bytes = evictOne(victim.value, spills);
    spills = spills && bytes >= 0;
    if (!spills && !by_cost) break;
    freed += std::max<std::int64_t>(bytes, 0);
    if (by_cost && freed < need_bytes) freed += evictNeighbours(victim.value, need_bytes - freed);
  }
  return freed;
}

std::vector<Evictor::Victim> Evictor::victims() {
  std::vector<Victim> found;
  std::int64_t evictable_bytes = 0;
  const StepLock::Freeing lock(lock_);
  for (ValueId id = 0; id < values_.next(); ++id) {
    RunValue& value = values_.at(lock, id);
    if (!value.stored.held() && value.stored.expired()) values_.endWatch(lock, value);
    if (!evictable(lock, value)) continue;
    evictable_bytes += value.bytes;
    found.push_back({computesAgain() ? lowestScore(lock, id, value) : static_cast<double>(id), id});
  }
  allowed_.costs().noteUnevictable(trained_.memory().statistics().allocated_bytes -
                                   evictable_bytes);
  return found;
}

bool Evictor::evictable(const StepLock::Held&, const RunValue& value) const {
  const c10::Storage& held = value.stored.held();
  return held && !value.parameter() && value.bytes >= SpillTarget::kLeastBytes &&
         held.use_count() == 1 && device_.blocks.isOurs(held);
}

// Where values are to be written to the host only if nothing else helps, more than anything else.
double Evictor::spillNs(std::int64_t bytes) const {
  return static_cast<double>(bytes) /
         static_cast<double>(std::max<std::int64_t>(spill_bytes_per_second_, 1)) * 1e9;
}

double Evictor::lowestScore(const StepLock::Held&, ValueId id, const RunValue& value) {
  const EvictionCosts& costs = allowed_.costs();
  double cost = spillNs(value.bytes);
  if (follower_.values().unplanned(id) && value.producer != kNone && ops_[value.producer].record) {
    const auto again = static_cast<double>(ops_[value.producer].time.nanoseconds());
    cost = std::min(cost, again + costs.checksumsNs(value.bytes));
  }
  return evictionScore(cost, value.bytes, follower_.cursor().boundary() - value.touched() + 1);
}

double Evictor::exactScore(ValueId id) {
  const StepLock::Freeing lock(lock_);
  const RunValue& value = values_[id];
  const EvictionCosts& costs = allowed_.costs();
  const auto chain = cheapChainOf(lock, id);
  const double cost =
      chain ? chain->duration_ns + costs.checksumsNs(value.bytes) : spillNs(value.bytes);
  return evictionScore(cost, value.bytes, follower_.cursor().boundary() - value.touched() + 1);
}

// The bytes that are free now; 0: it was taken up meanwhile, or only to be spilled, which nothing
// can be. Less: that was found now.
std::int64_t Evictor::evictOne(ValueId id, bool spills) {
  if (computesAgain()) {
    if (const std::int64_t bytes = dropOnline(id); bytes > 0) return bytes;
  }
  return spills ? spill(id) : 0;
}

// Values of the ops that follow: one chain brings them all back, so each costs little more than its
// own op.
std::int64_t Evictor::evictNeighbours(ValueId after, std::int64_t need_bytes) {
  std::vector<ValueId> next;
  {
    const StepLock::Freeing lock(lock_);
    const RunValue& first = values_[after];
    if (first.stored.held() || first.stored.slot() || first.producer == kNone) return 0;
    const auto end = std::min(ops_.next(), first.producer + 1 + kNeighbours);
    for (OpId op = first.producer + 1; op < end; ++op) {
      for (const ValueId output : ops_[op].outputs) {
        if (evictable(lock, values_[output])) next.push_back(output);
      }
    }
  }
  std::int64_t freed = 0;
  for (const ValueId value : next) {
    if (freed >= need_bytes) break;
    const std::int64_t bytes = dropOnline(value);
    if (bytes == 0) break;
    freed += bytes;
  }
  return freed;
}

std::int64_t Evictor::spill(ValueId id) {
  c10::Storage victim;
  {
    const StepLock::Freeing lock(lock_);
    RunValue& value = values_.at(lock, id);
    if (!evictable(lock, value)) return 0;
    if (computesAgain() && follower_.values().unplanned(id) && verifier_.differsFromBirth(value))
      value.stored.keep();
    values_.logLastReference(lock, id);
    victim = value.stored.held();  // stays readable for others while it is written
  }
  const TracedScope traced(trace_, TracedSpan::Kind::kSpill, nullptr,
                           static_cast<std::int64_t>(victim.nbytes()));
  const auto slot = spills_.write(victim.data(), static_cast<std::int64_t>(victim.nbytes()),
                                  SpillTarget::Afterwards::kFreed);
  if (!slot) {
    // Pinned memory may be full, or out of reach in a capture, for a moment.
    if (device_.contents.onHost()) outage_.begin();
    return -1;
  }
  const StepLock::Freeing lock(lock_);
  RunValue& value = values_.at(lock, id);
  if (value.stored.held().use_count() != 2) {  // taken up meanwhile
    spills_.release(*slot);
    return 0;
  }
  values_.endGuard(lock, value);  // nobody else can free the block
  // A copy that is there already may be older than a write that nobody saw.
  values_.giveUpSlot(lock, value);
  value.stored.addSlot(*slot);
  value.stored.take();
  lock.giveUp(std::move(victim));  // the last one
  counters_.addSpill(value.bytes);
  return value.bytes;
}

// 0: it cannot be, or to spill it costs less.
std::int64_t Evictor::dropOnline(ValueId id) {
  c10::Storage victim;
  ByteRange covered;
  {
    const StepLock::Freeing lock(lock_);
    RunValue& value = values_.at(lock, id);
    if (!evictable(lock, value) || !cheapChainOf(lock, id)) return 0;
    if (verifier_.differsFromBirth(value)) {
      value.stored.keep();
      return 0;
    }
    victim = value.stored.held();
    covered = value.covered();
  }
  const Checksum checksum = verifier_.checksumOf(covered.in(victim.data()), covered.bytes());
  const StepLock::Freeing lock(lock_);
  RunValue& value = values_.at(lock, id);
  if (value.stored.held().use_count() != 2 || value.stored.slot()) return 0;  // taken up meanwhile
  if (!value.isSummedAs(checksum)) {  // written since it was computed again
    value.stored.keep();
    return 0;
  }
  const auto chain = chainOf(lock, id);
  if (!chain || !markRecomputable(lock, *chain)) return 0;
  value.leaveChecksum(checksum);
  values_.logLastReference(lock, id);
  value.stored.take();
  lock.giveUp(std::move(victim));
  counters_.addOnlineDrop(value.bytes);
  return value.bytes;
}

bool Evictor::mayRunAgain(const StepLock::Held&, const RunOp& op) const {
  return op.record && op.finished && op.kept_because == nullptr &&
         op.info->repeats_because != nullptr && !trust_.hasRejected(op.info->name);
}

// Nothing when it cannot be computed again, or not within the bounds.
std::optional<Evictor::Chain> Evictor::chainOf(const StepLock::Freeing& lock, ValueId id) {
  const RunValue& value = values_[id];
  const auto& stored = value.stored;
  if (!follower_.values().unplanned(id) || stored.kept() || stored.stale() ||
      stored.overwritten() || value.uninitialised() || value.foreign || value.rejected() ||
      stored.bits() || !value.print()) {
    return std::nullopt;
  }
  // A copy from the spill file, or one that the program has written: not what the op gave.
  if (stored.replaced() ? !value.checksum() : !value.intact()) return std::nullopt;
  if (value.readers() > 0) return std::nullopt;  // their chains would grow
  Chain chain;
  chain.most_bytes = value.bytes + allowed_.transientBytes();
  if (!extend(lock, chain, id)) return std::nullopt;
  return chain;
}

// Nothing when it costs more than to spill it.
std::optional<Evictor::Chain> Evictor::cheapChainOf(const StepLock::Freeing& lock, ValueId id) {
  auto chain = chainOf(lock, id);
  if (!chain) return std::nullopt;
  const EvictionCosts& costs = allowed_.costs();
  const std::int64_t bytes = values_[id].bytes;
  if (chain->duration_ns + costs.checksumsNs(bytes) >= spillNs(bytes)) return std::nullopt;
  return chain;
}

// By the op that made it. Inputs come back one after another, and those that nobody else needs go
// when the op has run.
bool Evictor::extend(const StepLock::Freeing& lock, Chain& chain, ValueId id) {
  const RunValue& value = values_[id];
  if (value.producer == kNone || !follower_.values().unplanned(id)) return false;
  RunOp& op = ops_[value.producer];
  if (!value.recomputable() && !contains(chain.unmarked, id)) chain.unmarked.push_back(id);
  if (contains(chain.ops, value.producer)) return true;
  if (!mayRunAgain(lock, op) || chain.ops.size() == kMostChainOps) return false;
  chain.ops.push_back(value.producer);
  chain.duration_ns += static_cast<double>(op.time.nanoseconds());
  std::int64_t passing_bytes = 0;
  for (const ValueId input : op.inputs) {
    const std::int64_t before_bytes = chain.held_bytes;
    if (!canRead(lock, chain, input, value.producer)) return false;
    const RunValue& read = values_[input];
    const bool passes = !read.stored.held() && !read.stored.slot() && read.liveUses() == 0 &&
                        read.readers() == (read.recomputable() ? 1 : 0);
    if (passes && chain.held_bytes > before_bytes) passing_bytes += read.bytes;
  }
  std::int64_t made_bytes = 0;
  for (const ValueId output : op.outputs) made_bytes += values_[output].bytes;
  for (const auto& [argument, input] : op.written)
    made_bytes += values_[input].bytes;  // duplicates
  chain.peak_bytes = std::max(chain.peak_bytes, chain.held_bytes + made_bytes);
  chain.held_bytes -= passing_bytes;
  return chain.peak_bytes <= chain.most_bytes;
}

// What the op read is there, or can be had again, as long as it has readers.
bool Evictor::canRead(const StepLock::Freeing& lock, Chain& chain, ValueId id, OpId reader) {
  RunValue& value = values_.at(lock, id);
  if (value.pristine()) return value.isPristineFor(reader);
  const auto& stored = value.stored;
  if (value.producer == kNone && !stored.slot()) return graphInputStays(lock, value);
  if (stored.kept() || stored.stale() || stored.bits()) return false;
  const double before_ns = chain.duration_ns;
  if (stored.held()) {
    if (stored.held().use_count() != 1 || (!stored.replaced() && !value.intact())) return false;
  } else if (stored.slot()) {
    chain.duration_ns += spillNs(value.bytes) / 2;  // to read it
  } else if (!stored.expired() || !extend(lock, chain, id)) {
    return false;  // expired: else the program may still write it, unseen
  }
  if (value.liveUses() > 0) chain.duration_ns = before_ns;  // it comes back anyway
  chain.held_bytes += value.bytes;
  return true;
}

// A parameter, unwritten, or what nobody but us holds and has a print, with which it is compared.
// Other inputs of a step may be filled anew by what tells nobody: a loader that writes into its one
// buffer through NumPy.
bool Evictor::graphInputStays(const StepLock::Freeing& lock, const RunValue& value) {
  const bool ours_alone = value.stored.held().use_count() == 1;
  if (!value.parameter() && !(ours_alone && value.print())) return false;
  const c10::Storage storage = value.stored.storage();
  if (!storage) return false;
  lock.giveUp(storage);
  const auto& stored = value.stored;
  return !stored.overwritten() && !value.mayBeWritten() && !stored.kept() && !stored.stale() &&
         !value.foreign && value.intact() && !value.isElsewhere(storage) &&
         device_.blocks.isOurs(storage);
}

bool Evictor::keepGraphInput(const StepLock::Held& lock, RunValue& value) {
  if (value.pristine() || value.stored.slot() || !value.parameter()) return true;
  value.stored.holdIfAlive();
  return values_.guard(lock, value);
}

// False: an input has changed, or cannot be held.
bool Evictor::markRecomputable(const StepLock::Freeing& lock, const Chain& chain) {
  std::vector<ValueId> inputs;
  for (const OpId op : chain.ops)
    inputs.insert(inputs.end(), ops_[op].inputs.begin(), ops_[op].inputs.end());
  for (const ValueId input : inputs) {
    RunValue& value = values_.at(lock, input);
    if (value.pristine() || !verifier_.differsFromBirth(value)) continue;
    value.stored.keep();
    return false;
  }
  for (const ValueId input : inputs) {
    if (keepGraphInput(lock, values_.at(lock, input))) continue;
    for (const ValueId each : inputs) kept_values_.letGo(lock, each);
    return false;
  }
  for (const ValueId id : chain.unmarked) {
    values_.addReader(lock, id, ops_[values_[id].producer].inputs);
  }
  return true;
}

}  // namespace ebbtide::plugin
