// Evictor: what goes when memory is short: values that nobody but us holds, to the spill file, or,
// where no plan says what to drop, to be computed again. Includes torch.
//
//   saved ─► dropped, with its checksum ─► replayed for an unpack, compared ─► last use released
//            its op's inputs have it as a reader ──────────────────────────────► let go
//
// A value with readers stays restorable as one with saved uses does: held, spilled, or dropped with
// readers of its own. What is dropped, or died before, and is `recomputable` is a reader of its
// op's inputs until nobody needs it. So the chains behind a dropped value end at what is held or
// spilled, and at parameters, which are held too, and written to only after a duplicate was made
// (WriteProtection). They are fixed when it is dropped: a value with readers is spilled, never
// dropped.
//
// Thread rule: any thread that allocates, without the step's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "execute/kept_values.hpp"
#include "execute/step_parts.hpp"

namespace ebbtide::plugin {

class Evictor {
 public:
  Evictor(StepParts& step, KeptValues& kept_values) : step_(step), kept_values_(kept_values) {}

  std::int64_t evict(std::int64_t need_bytes) noexcept;

 private:
  using Held = StepLock::Held;
  using Freeing = StepLock::Freeing;

  // What may be given up.
  struct Victim {
    double score = 0;  // the smallest goes first
    ValueId value = scheduler::kNone;
    bool exact = false;  // else a lower bound
  };

  // What has to run again, in one restore, to have a value back.
  struct Chain {
    std::vector<OpId> ops;          // each once
    std::vector<ValueId> unmarked;  // values on the way that are not recomputable yet
    double duration_ns = 0;         // with fetches that are for its sake alone
    std::int64_t most_bytes = 0;    // that may live meanwhile, parameters and graph inputs apart
    std::int64_t peak_bytes = 0;
    std::int64_t held_bytes = 0;  // by what has come back so far
  };

  bool computesAgain() const noexcept {  // what is evicted now
    return step_.keeps_op_records && !follower_.follows();
  }
  std::int64_t evict(std::int64_t need_bytes, bool by_cost, bool& spills);
  std::int64_t evictOne(ValueId value, bool spills);
  std::int64_t evictNeighbours(ValueId after, std::int64_t need_bytes);
  std::int64_t spill(ValueId value);
  std::int64_t dropOnline(ValueId value);

  // --- which one
  std::vector<Victim> victims();
  bool evictable(const Held&, const RunValue& value) const;
  double spillNs(std::int64_t bytes) const;  // and to fetch again
  double lowestScore(const Held&, ValueId value, const RunValue& value_state);
  double exactScore(ValueId value);

  // --- to be computed again
  bool mayRunAgain(const Held&, const RunOp& op) const;
  std::optional<Chain> chainOf(const Freeing&, ValueId value);
  std::optional<Chain> cheapChainOf(const Freeing&, ValueId value);
  bool extend(const Freeing&, Chain& chain, ValueId value);
  bool canRead(const Freeing&, Chain& chain, ValueId value, OpId reader);
  bool graphInputStays(const Freeing&, const RunValue& value);
  bool keepGraphInput(const Held&, RunValue& value);
  bool markRecomputable(const Freeing&, const Chain& chain);

  StepParts& step_;
  KeptValues& kept_values_;
  DropsAllowed& allowed_ = step_.run.drops;
  OutageCourse& outage_ = step_.run.outage;
  ReplayTrust& trust_ = step_.run.trust;
  TrainedMemory& trained_ = step_.run.trained;
  SpillTarget& spills_ = step_.run.spills;
  ExecutorCounters& counters_ = step_.run.counters;
  RunTrace& trace_ = step_.run.trace;
  const TrainingDevice& device_ = step_.device;
  const DeviceLanes::Lane lane_ = step_.lane;
  PlanFollower& follower_ = step_.follower;
  StepLock& lock_ = step_.lock;
  Verifier& verifier_ = step_.verifier;
  OpLog& ops_ = step_.ops;
  ValueTable& values_ = step_.values;
  std::atomic<std::int64_t> spill_bytes_per_second_{0};  // and back
};

}  // namespace ebbtide::plugin
