// StepRun: one training step while it lives: its ops' recipes, its values, its saved uses. How it
// follows its plan its PlanFollower knows.
//
// Values are storage contents between two writes. A value's copy is the storage that has them now:
//
//   born ─► first copy (the program's own storage) ─► dropped ─► replayed or fetched copy ─►
//   dropped …
//            held: we keep it alive            weak: the program may still keep it alive
//
// A dropped value leaves its fingerprint: a replay that gives other contents is an error, never a
// wrong number.
//
// Ownership: recipes, values and uses are owned here and refer to each other by id, so that a long
// chain ends flat. Saved-tensor hooks own the StepRun. Thread rule: mutex_ guards the values', the
// ops' and the uses' lists and the values' state; it is never held while dispatching, allocating or
// freeing, since the allocator may call evict() on the same thread, and a free the program's code.
// restore_mutex_ lets one backward thread restore at a time. Includes torch.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fill_pattern.hpp"
#include "device/checksum.hpp"
#include "device/fingerprint.hpp"
#include "device/spill_target.hpp"
#include "device/torch/training_device.hpp"
#include "execute/uncounted_storages.hpp"
#include "execute/verifier.hpp"
#include "observe/traced_step.hpp"
#include "out_of_memory/live_shares.hpp"
#include "plan/kept_graphs.hpp"
#include "plan/plan.hpp"
#include "plan/plan_follower.hpp"
#include "record/log/event_log.hpp"
#include "record/recipe.hpp"
#include "record/weak_references.hpp"
#include "runtime/session.hpp"

namespace torch::autograd {
struct Node;
}

namespace ebbtide::plugin {

struct RunValue;

class StepRun : public std::enable_shared_from_this<StepRun> {
 public:
  struct Options {
    bool record_ops = true;         // false: values are known by their saved uses alone
    bool hooks = true;              // false: what is saved stays with torch
    std::shared_ptr<EventLog> log;  // nullptr: do not write a trace
    std::int64_t number = 0;        // of the session's steps
    OpenSteps::Number opened = 0;   // among those that are open
    bool trains = true;             // false: its thread has run nothing backward so far
  };

  // `plan`: nullptr: keep everything. The first op may change it.
  StepRun(Session& session, Options options, std::shared_ptr<const Plan> plan);
  ~StepRun();
  StepRun(const StepRun&) = delete;
  StepRun& operator=(const StepRun&) = delete;

  // --- recording, by the thread that runs the forward pass
  OpId beginOp(const OpInfo& info, c10::ArrayRef<const c10::IValue> inputs);
  // `saved`: what autograd saved meanwhile and was not known when the op began.
  void endOp(OpId op, c10::ArrayRef<const c10::IValue> outputs, c10::ArrayRef<at::Tensor> saved,
             TimeSpan time);
  // Is the op's memory to be filled before it runs? As before its replays, then.
  bool fillsMemory(OpId op) const;
  // Of an op, from now on; empty where nobody will ask for it.
  TimeSpan startTime() const {
    return options_.log || keeps_recipes_ ? TimeSpan(device_.clock) : TimeSpan();
  }
  void noteUnrecordedWrite(const at::Tensor& tensor);
  void noteOtherData(const c10::TensorImpl& tensor);  // it was given other data (`p.data = …`)
  void noteDetached(const at::Tensor& tensor);        // is about to be, in place
  // Does this thread ask the device on the step's lane? What it does on another one is no part of
  // the step, and keeps everything (Session) if it touches what the step knows or trains.
  bool onItsLane() const noexcept { return device_.lanes.now() == lane_; }
  void noteOtherLane(c10::ArrayRef<const c10::IValue> inputs);

  // --- saved tensors
  ValueId findValue(const at::Tensor& tensor);    // kNone when its present contents are unknown
  ValueId sourceValue(const at::Tensor& tensor);  // findValue, or a new source
  // `view` is looked at until the use is released. `by`: the op that saves it, kNone between ops.
  // `maker`: the tensor's grad_fn, nullptr where that is nobody's to ask for.
  UseId addUse(ValueId value, const at::Tensor& tensor, const TensorView& view, OpId by,
               const torch::autograd::Node* maker);
  bool isDetached(UseId use) const;  // was the tensor since, in place?
  c10::Storage restore(UseId use);   // for one unpack
  void releaseUse(UseId use) noexcept;

  // --- messages of other ranks (step_ahead.cpp), by the thread that trains
  bool notesReceives() const noexcept {
    return follower_.cursor().expectsReceives() && !follower_.offPlan();
  }
  void noteMessage(bool receive) noexcept;  // the program asks for one,
  void runAhead();                          // has asked, and has not begun to wait

  // --- memory pressure: gives up held values that nobody else holds (step_eviction.cpp)
  std::int64_t evict(std::int64_t need_bytes) noexcept;

  // --- when memory is out: what its live blocks are
  void nameBlocks(LiveShares& live, bool in_backward);
  std::string nameOf(OpId op) const;
  // --- when it is over: what it spilled and nothing has read since, though it is saved still
  struct UnreadSpills {
    std::int64_t bytes = 0;
    std::map<std::string, std::int64_t> by_op = {};
  };
  UnreadSpills unreadSpills() const;

  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

  // --- at its end
  scheduler::Trace takeTrace();
  bool backwardSeen() const noexcept { return backward_seen_; }
  // The most bytes of others' memory that its tensors lay in at a time.
  std::int64_t uncountedBytes() const;
  void noteBackward() noexcept {
    paused_ = true;
    traced_.noteBackward();
    if (!backward_seen_.exchange(true)) session_.noteBackwardBegins();
  }
  void noteBackwardNode(const char* name) {
    follower_.cursor().touch();
    noteBackward();
    if (options_.log) logBackwardNode(name);
  }
  // Recording waits for the first op that touches something trained: what comes before prepares
  // data.
  bool paused() const noexcept { return paused_; }
  void resume() noexcept {
    if (!paused_.exchange(false)) return;
    ++forward_phases_;
    traced_.noteForward();
  }
  bool parametersChanged() const;  // since this step first read them
  // While it rests an op begins. Does that train another part of the same tensor, in the place of
  // all that this step trained? Of leaves that are parts no storage tells that they are gone.
  bool readsAnotherPart(c10::ArrayRef<const c10::IValue> inputs) const;
  void endTraced() noexcept { traced_.end(backward_seen_); }
  void finish(bool by_hint) noexcept { finished_by_hint_ = by_hint, finished_ = true; }
  bool finished() const noexcept { return finished_; }
  int forwardPhases() const noexcept { return forward_phases_; }
  bool hasUses() const noexcept { return use_count_ > 0; }
  bool outgrown() const noexcept;  // a step that never ends: no parameter is written
  std::int64_t liveUses() const noexcept { return live_uses_; }
  const PlanFollower& follower() const noexcept { return follower_; }
  bool comparedWhole() const noexcept;  // a rehearsal: each replay of the plan was compared
  bool mayReplay() const noexcept {
    return (follower_.hasPlan() && mayDrop()) || (keeps_recipes_ && live_uses_ > 0);
  }
  const Options& options() const noexcept { return options_; }
  bool recordsOps() const noexcept { return options_.record_ops; }

 private:
  static constexpr std::size_t kMostOps = 200'000;
  static constexpr std::int64_t kMostUses = 200'000;
  static constexpr int kNoPass = -1;

  struct RunOp;
  struct Use;
  struct Present;  // which value a storage holds now
  struct Trained;
  struct Chain;
  struct Victim;
  class Locked;
  class RestoreScope;

  void logBackwardNode(const char* name);
  void switchPlan(std::shared_ptr<const Plan> plan);
  std::unique_ptr<Recipe> recordRecipe(const RunOp& op,
                                       c10::ArrayRef<const c10::IValue> inputs) const;
  // Is something dropped, or to be dropped? Uses are alive, or the plan foresees more of them.
  bool mayDrop() const noexcept { return live_uses_ > 0 || follower_.expectsUses(); }
  ValueId presentValue(const at::Tensor& tensor) const;
  // Called with mutex_ held. From now on nothing has a place in it.
  void leavePlan(const std::string& why);
  void keepEverything(const std::string& why);  // without mutex_
  void unplanFrom(ValueId first);
  ValueId addValue(const at::Tensor& tensor, OpId producer, int output);
  static const at::TensorBase* trainedLeaf(const at::Tensor& tensor);
  void noteTrained(ValueId source, const at::Tensor& tensor);
  void holdIfKept(ValueId value, const c10::Storage& storage);
  void overwrite(ValueId value, OpId by);
  void passOn(ValueId overwritten, ValueId successor, const c10::Storage& storage);
  ValueId valueOf(UseId use);  // that it reads now; mutex_ held
  void protect(ValueId value);
  c10::Storage unwrittenCopy(const c10::Storage& present);
  bool readByPlan(ValueId value) const;
  c10::Storage replayInput(ValueId value, int depth);
  void giveUp(RunValue& value);
  void giveUpAll();
  void keepForeign(std::vector<c10::Storage>& given_up);
  void watchContents(ValueId value);
  void dropLate();
  void endWatch(RunValue& value);
  void noteUnseenWrite(RunValue& value, const c10::Storage& storage);
  void noteNaturalDeaths();
  void noteNaturalDeath(ValueId id, RunValue& value);
  void hashInput(RunOp& op, int argument, int element, const at::Tensor& tensor);
  void bindOutput(RunOp& op, OpId id, int index, const at::Tensor& tensor);
  void bindWrittenOver(RunOp& op, OpId id, int index, c10::ArrayRef<at::Tensor> saved);
  ValueId addOutput(RunOp& op, OpId id, int index, const at::Tensor& tensor,
                    const ByteRange& covered);
  void coverAlso(RunValue& value, const ByteRange& covered, const c10::Storage& storage);
  void noteRead(ValueId value, const at::Tensor& tensor, const ByteRange& read);
  void keepOriginal(RunValue& value, const char* why);
  Fingerprint::Extent printExtent(const RunOp& op) const;
  std::vector<UseId> takeUsesApart(ValueId from, const at::Tensor& written);
  void moveUses(c10::ArrayRef<UseId> uses, ValueId to, const at::Tensor& written);
  void forgetUse(UseId use);
  bool joinPlan(UseId use, ValueId value, OpId by);
  bool isPlanned(const RunOp& op) const;
  void followPlan(RunOp& op, OpId id);
  void noteInserted(RunOp& op, OpId id);
  void noteNone(const RunOp& op);
  void applyDrops(c10::ArrayRef<ValueId> drops);
  void drop(ValueId value);
  bool losesItsOp(ValueId value, const RunValue& value_state) const;
  void tryCode(const RunOp& op, ValueId value);
  bool fetchedLater(ValueId id, const RunValue& value) const;
  bool onlyCopy(ValueId id, const RunValue& value);
  bool copiedByPlan(ValueId id, const RunValue& value) const;
  bool staysOnHost(ValueId id, const RunValue& value) const;
  void noteFetched(ValueId id, RunValue& value);
  bool isStillOnHost(const RunValue& value) const;
  bool mayRunBeyondPlan() const;
  bool isAskedFor(ValueId id);
  KeptGraphs::Asker savedReader(ValueId id);
  void giveUpUnasked();
  void makeCopy(ValueId value);
  void encode(RunValue& value, ValueId planned, const c10::Storage& present);
  void offload(RunValue& value, const c10::Storage& present);
  c10::Storage decode(RunValue& value);
  void fetchCopy(ValueId planned);
  void giveUpCode(RunValue& value);
  void giveUpSlot(RunValue& value);
  void giveUpCopies(RunValue& value);  // bits, and what is on the host

  bool rehearses(const RunOp& op) const;
  bool computesAgain() const noexcept {  // what is evicted now
    return keeps_recipes_ && !follower_.follows();
  }
  bool evictable(const RunValue& value) const;
  std::vector<Victim> victims();
  double spillNs(std::int64_t bytes) const;  // and to fetch again
  double lowestScore(ValueId value, const RunValue& value_state);
  double exactScore(ValueId value);
  std::int64_t evict(std::int64_t need_bytes, bool by_cost, bool& spills);
  std::int64_t evictOne(ValueId value, bool spills);
  std::int64_t evictNeighbours(ValueId after, std::int64_t need_bytes);
  std::int64_t spill(ValueId value);
  std::int64_t dropOnline(ValueId value);
  bool mayRunAgain(const RunOp& op) const;
  std::optional<Chain> chainOf(ValueId value);
  std::optional<Chain> cheapChainOf(ValueId value);
  bool extend(Chain& chain, ValueId value);
  bool canRead(Chain& chain, ValueId value, OpId reader);
  bool sourceStays(RunValue& value);
  bool keepSource(RunValue& value);
  bool markRecomputable(const Chain& chain);
  void letGo(ValueId value);
  void giveUpInputs(const RunOp& op);
  void endGuard(RunValue& value);

  bool followsPlan(UseId use) const;
  bool canRun(const std::vector<scheduler::Step>& prelude) const;
  OpId stepsOp(OpId planned) const;
  ValueId stepsValue(ValueId planned) const;
  void noteLeftOver(UseId use);
  void runPrelude(std::int32_t event);
  bool runSteps(const std::vector<scheduler::Step>& steps);
  bool runDueWaits(std::int32_t event);
  void finishEvent();
  void finishLastEvent() noexcept;
  c10::Storage unpack(UseId use);
  c10::Storage unpackCaptured(UseId use);
  c10::Storage materialize(ValueId value, int depth);
  c10::Storage fetch(ValueId value);
  void replay(OpId op, int depth, const std::vector<ValueId>& given_up);
  FillPattern fillOf(const RunOp& op) const;
  Recipe::Outputs runAgain(const RunOp& op, OpId id, int depth,
                           const std::vector<ValueId>& given_up, FillPattern fill);
  bool endsReplay(const RunOp& op, const std::exception& error);
  void endRehearsal(const std::exception& error);
  std::vector<OpId> readersOfResized();
  std::vector<std::optional<bool>> compareReplay(const RunOp& op, OpId id, int depth,
                                                 const Recipe::Outputs& outputs, FillPattern fill);
  void tryKernel(const RunOp& op, OpId id, int depth, const Recipe::Outputs& outputs,
                 unsigned char pattern, std::vector<std::optional<bool>>& equal);
  void adoptOutput(const RunOp& op, ValueId id, const at::Tensor& output,
                   std::optional<bool> equal);
  c10::Storage writableInput(ValueId id, c10::Storage storage, bool given_up);
  static bool isNeeded(const RunValue& value) noexcept;
  static bool keptOnHost(const RunValue& value) noexcept;

  Session& session_;
  const TrainingDevice& device_ = trainingDevice();
  const DeviceLanes::Lane lane_ = device_.lanes.now();
  Options options_;
  TracedStep traced_{session_.runTrace(), options_.number};
  PlanFollower follower_;
  const bool keeps_recipes_;  // of what no plan foresees
  std::atomic<bool> finished_{false}, finished_by_hint_{false};
  std::atomic<int> forward_phases_{0};
  std::atomic<bool> backward_seen_{false};
  std::atomic<bool> paused_{true};
  std::atomic<int> backward_pass_{kNoPass};  // the last one that began: passes count upwards
  std::atomic<std::int64_t> live_uses_{0};

  mutable std::mutex mutex_;
  Verifier verifier_{device_, session_.spills(), session_.evictionCosts().checksum, mutex_};
  std::mutex restore_mutex_;
  std::atomic<std::thread::id> restoring_{std::thread::id()};  // holds restore_mutex_
  std::deque<RunOp> ops_;
  std::deque<RunValue> values_;
  std::deque<Use> uses_;
  std::atomic<std::int64_t> use_count_{0};
  std::unordered_map<const c10::StorageImpl*, Present> present_;
  std::vector<c10::Storage> given_up_;  // to be freed when mutex_ is released
  std::vector<Trained> parameters_;
  std::vector<ValueId> late_drops_;
  KeptGraphs kept_graphs_;
  UncountedStorages uncounted_;
  std::vector<ValueId> shared_with_program_;  // held values whose natural death is to be noted
  OpId replaying_ = scheduler::kNone;  // whose own work an exception comes from; restore_mutex_
  std::atomic<bool> parameter_written_{false};
  std::atomic<std::int64_t> spill_bytes_per_second_{0};  // and back
};

}  // namespace ebbtide::plugin
