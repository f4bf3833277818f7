// StepRun: one training step while it lives: what torch's callbacks say of it, handed to the parts
// that work on it. step_parts.hpp draws these.
//
// Saved-tensor hooks own it. Thread rule: one thread records; any thread restores, releases, evicts
// and writes. Who calls it holds no lock of it (StepLock). Includes torch.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "execute/backward_runner.hpp"
#include "execute/evictor.hpp"
#include "execute/given_data.hpp"
#include "execute/kept_values.hpp"
#include "execute/op_recorder.hpp"
#include "execute/plan_drops.hpp"
#include "execute/restorer.hpp"
#include "execute/step_parts.hpp"
#include "execute/value_recorder.hpp"
#include "execute/write_protection.hpp"
#include "out_of_memory/live_shares.hpp"
#include "runtime/steps/open_steps.hpp"

namespace ebbtide::plugin {

class StepRun {
 public:
  struct Options {
    bool record_ops = true;              // false: values are known by their saved uses alone
    bool hooks = true;                   // false: what is saved stays with torch
    std::shared_ptr<EventLog> log;       // nullptr: do not write a trace
    std::int64_t number = 0;             // of the run's steps
    OpenSteps::Number opened = 0;        // among those that are open
    bool trains = true;                  // false: its thread has run nothing backward so far
    std::int64_t least_saved_bytes = 0;  // with hooks: what is saved of less stays with torch

    bool asksForAll() const noexcept { return hooks && least_saved_bytes == 0; }
  };

  // `plan`: nullptr: keep everything. The first op may change it.
  StepRun(const RunParts& run, Options options, std::shared_ptr<const Plan> plan);
  ~StepRun();
  StepRun(const StepRun&) = delete;
  StepRun& operator=(const StepRun&) = delete;

  // --- recording, by the thread that runs the forward pass
  OpId beginOp(const OpInfo& info, c10::ArrayRef<const c10::IValue> inputs) {
    return op_recorder_.beginOp(info, inputs);
  }
  // `saved`: what autograd saved meanwhile and was not known when the op began.
  void endOp(OpId op, c10::ArrayRef<const c10::IValue> outputs, c10::ArrayRef<at::Tensor> saved,
             TimeSpan time) {
    op_recorder_.endOp(op, outputs, saved, std::move(time));
  }
  // Is the op's memory to be filled before it runs? As before its replays, then.
  bool fillsMemory(OpId op) const { return step_.ops[op].filled; }
  // Of an op, from now on; empty where nobody will ask for it.
  TimeSpan startTime() const {
    return step_.log || step_.keeps_op_records ? TimeSpan(step_.device.clock) : TimeSpan();
  }
  void expectOtherData(const at::Tensor& tensor);  // it is about to be given other data
  void noteOtherData(const at::Tensor& tensor);    // it was (`p.data = …`)
  void noteDetached(const at::Tensor& tensor);     // is about to be, in place
  // Does this thread ask the device on the step's lane? What it does on another one is no part of
  // the step, and keeps everything (DropsAllowed) if it touches what the step knows or trains.
  bool onItsLane() const noexcept { return step_.device.lanes.now() == step_.lane; }
  void noteOtherLane(c10::ArrayRef<const c10::IValue> inputs);

  // --- saved tensors
  // It knows the present values, and adds the uses that save them.
  ValueRecorder& recorder() noexcept { return recorder_; }
  bool isDetached(UseId use) const;  // was the tensor since, in place?
  // The data that a saved tensor was given since (GivenData); undefined: none.
  at::Tensor dataGivenTo(const c10::TensorImpl* tensor) const;
  c10::Storage restore(UseId use) { return backward_.restore(use); }  // for one unpack
  void releaseUse(UseId use) noexcept;
  bool hasUses() const noexcept { return step_.saved.count() > 0; }
  std::int64_t liveUses() const noexcept { return step_.saved.live(); }

  // --- backward passes, and messages of other ranks
  BackwardRunner& backward() noexcept { return backward_; }

  // --- memory pressure: gives up held values that nobody else holds
  std::int64_t evict(std::int64_t need_bytes) noexcept { return evictor_.evict(need_bytes); }

  // --- when memory is out: what its live blocks are
  struct Failing {             // what asks for more
    bool in_backward = false;  // a backward pass
    bool evaluates = false;    // under no_grad, in neither that nor torch.optim's step
  };
  bool nameBlocks(LiveShares& live, Failing by);  // false: its blocks are not all observed
  std::string nameOf(OpId op) const;
  // --- when it is over: what it spilled and nothing has read since, though it is saved still
  struct UnreadSpills {
    std::int64_t bytes = 0;
    std::map<std::string, std::int64_t> by_op = {};
  };
  UnreadSpills unreadSpills() const;

  void lockForFork() { step_.lock.lockForFork(); }
  void unlockAfterFork() { step_.lock.unlockAfterFork(); }

  // --- at its end
  StepPhases& phases() noexcept { return step_.phases; }
  const StepPhases& phases() const noexcept { return step_.phases; }
  scheduler::Trace takeTrace();
  std::int64_t uncountedBytes() const;  // ValueTable
  bool parametersChanged() const;       // since this step first read them
  // While it rests an op begins (TrainedLeaves).
  bool readsAnotherPart(c10::ArrayRef<const c10::IValue> inputs) const;
  bool outgrown() const noexcept;  // a step that never ends: no parameter is written
  const PlanFollower& follower() const noexcept { return step_.follower; }
  bool comparedWhole() const noexcept { return restorer_.comparedWhole(); }  // a verification step
  bool mayReplay() const noexcept {
    return (step_.follower.hasPlan() && kept_values_.mayDrop()) ||
           (step_.keeps_op_records && liveUses() > 0);
  }
  // False: no live step may, nor will. Most ops need no more than this answer.
  static bool anyMayReplay() noexcept { return may_replay_.load(std::memory_order_relaxed) > 0; }
  const Options& options() const noexcept { return options_; }
  bool recordsOps() const noexcept { return options_.record_ops; }

 private:
  static constexpr std::int64_t kMostUses = 200'000;
  static inline std::atomic<int> may_replay_{0};  // steps

  Options options_;
  StepParts step_;
  KeptValues kept_values_{step_};
  WriteProtection protection_{step_, kept_values_};
  ValueRecorder recorder_{step_, kept_values_, protection_};
  PlanDrops drops_{step_, kept_values_};
  OpRecorder op_recorder_{step_, kept_values_, protection_, recorder_, drops_, options_.trains};
  Restorer restorer_{step_, kept_values_};
  BackwardRunner backward_{step_, kept_values_, drops_, restorer_};
  Evictor evictor_{step_, kept_values_};
  const bool records_or_replays_;
  GivenData given_;
};

}  // namespace ebbtide::plugin
