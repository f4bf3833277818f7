// TrainedMemory: the memory that a process trains in, the budget that bounds it, the part of the
// budget that a plan may use, and where values go that do not fit. Torch-free.
//
// Thread rule: setBudget() between two steps, moveTo() before the first one; the rest from any
// thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/current_config.hpp"
#include "device/spill_store.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/scheduler/budget_form.hpp"
#include "ebbtide/scheduler/budget_margins.hpp"
#include "ebbtide/scheduler/trace.hpp"
#include "memory/later_blocks.hpp"
#include "memory/step_observer.hpp"
#include "memory/step_placement.hpp"

namespace ebbtide::plugin {

class TrainedMemory {
 public:
  // Takes another budget as it was written, "" for none.
  using SetBudget = std::function<void(const std::string& size)>;

  using MostBytes = std::function<std::int64_t()>;  // of the device
  using Facts = std::function<scheduler::BudgetFacts()>;

  // The host's, with the spill file. The configuration must outlive it.
  explicit TrainedMemory(const CurrentConfig& config);
  ~TrainedMemory();

  // Another one, where values go from it, and the way that its budget is set; nullptr: its own way.
  // Both must outlive this. `most_bytes`, `facts` (of its memory): nullptr: not known. False: it is
  // that one already.
  bool moveTo(allocator::DeviceMemory& memory, SpillTarget& spills, SetBudget set_budget,
              MostBytes most_bytes, Facts facts = nullptr);
  bool isElsewhere() const noexcept { return memory_ != host_.get(); }

  allocator::DeviceMemory& memory() const noexcept { return *memory_; }
  allocator::DeviceMemory& host() const noexcept { return *host_; }
  StepObserver& observer() noexcept { return *observer_; }  // of memory()
  std::optional<StepPlacement>& placement() noexcept {
    return placement_;
  }  // nothing: streams share it
  const std::optional<StepPlacement>& placement() const noexcept { return placement_; }

  // What comes to live between steps, from this one on; until it is forgotten. One at a time.
  void watchLater(std::int64_t step, std::int64_t base_bytes);
  void forgetLater();
  LaterBlocks& later() noexcept { return later_; }

  // --- budget
  std::optional<std::int64_t> budgetBytes() const noexcept;        // in force; nothing: none
  void setBudget(const std::string& size);                         // as it was written, "" for none
  void measureOnly(bool only) noexcept { measures_only_ = only; }  // no entry is the rank's
  // What a budget may be of, as it is now: the memory that the rank shares. Reads files.
  scheduler::BudgetFacts memoryFacts() const;
  // The part of that budget that no plan uses.
  std::int64_t headroomBytes(std::int64_t budget_bytes) const;
  std::int64_t planningCapBytes() const { return planningCapBytes(budgetBytes()); }
  std::int64_t planningCapBytes(std::optional<std::int64_t> budget_bytes) const;  // of another one
  scheduler::BudgetMargins margins() const;  // all of this in one, as it is now
  // Of each budget, besides: what others hold, and what lies in no block.
  std::int64_t unplannedBytes() const;
  // The first of these, when it was measured last, whether or not there is a budget. 0 of a host.
  std::int64_t othersBytes() const;
  // The smallest budget that leaves so much beside its headroom.
  std::int64_t budgetWithRoomFor(std::int64_t bytes) const;
  // The budget that is told to users where steps need so much, in whole MiB; 0 of 0: not known.
  std::int64_t namedBudgetBytes(std::int64_t needed_bytes) const;
  // The budget may be exceeded, until 5 % of the machine or a control group are left free, or of
  // the device; of a host it reads files.
  void limitOverrun();
  // The same in each of many steps: it is taken anew once a second.
  void keepOverrunLimit();
  void refuseOverrun() noexcept { memory_->limitOverrun(0); }
  // The budget may be exceeded, as far as there is memory at all; each time is counted.
  void goOver() noexcept { memory_->limitOverrun(allocator::kUnlimited); }
  // While one lives: for what is ours, where the program's numbers depend on it.
  class OverBudget {
   public:
    explicit OverBudget(allocator::DeviceMemory& memory) noexcept
        : memory_(memory), before_(memory.overrunLimitBytes()) {
      memory_.limitOverrun(allocator::kUnlimited);
    }
    ~OverBudget() {  // another thread may have set a limit meanwhile
      if (memory_.overrunLimitBytes() == allocator::kUnlimited) memory_.limitOverrun(before_);
    }
    OverBudget(const OverBudget&) = delete;
    OverBudget& operator=(const OverBudget&) = delete;

   private:
    allocator::DeviceMemory& memory_;
    const allocator::Bytes before_;
  };
  // That could be mapped without a budget. Of the host what is mapped and in memory, and this
  // rank's part of what is left of the machine's memory and of the control groups', but for that
  // share of each; reads files.
  std::int64_t reachableBytes(double free_share = 0) const;
  void noteSlackAtPeak(std::int64_t bytes) noexcept { slack_at_peak_bytes_ = bytes; }

  // --- what does not fit
  SpillTarget& spills() const noexcept { return *spills_; }
  scheduler::HostCopies hostCopies();  // 0 bytes a second: only where nothing else helps
  // Plans do without from now on. False: they did so before.
  bool stopOffload() noexcept;
  bool offloadFails() const noexcept { return offload_fails_; }
  // A write to the host failed less than a second ago: another one is likely to, and costs.
  bool hostRefuses() const noexcept;

  void noteSharers(int ranks) noexcept { file_.setSharers(ranks); }  // of this machine

  // --- a process forks
  void lockForFork();
  void unlockAfterFork();
  void beInert();   // in the child
  void beActive();  // a child begins to train: the budget bounds it from now on

 private:
  const CurrentConfig& config_;
  std::unique_ptr<allocator::DeviceMemory> host_;
  allocator::DeviceMemory* memory_;
  std::optional<StepObserver> observer_;
  LaterBlocks later_;
  bool watches_later_ = false;
  std::chrono::steady_clock::time_point overrun_limit_until_;
  std::optional<StepPlacement> placement_;
  SpillStore file_;
  SpillTarget* spills_ = &file_;
  SetBudget set_budget_;
  MostBytes most_bytes_;
  Facts facts_;
  std::atomic<bool> measures_only_{false}, offload_fails_{false};
  std::atomic<std::int64_t> slack_at_peak_bytes_{0};  // of the last step, mapped in no block
  std::atomic<std::int64_t> refused_at_ns_{0};        // by the host, the last time
};

// There is no budget, or half of it is unmapped. Any thread.
bool hasAmpleBudget(const TrainedMemory& memory) noexcept;

}  // namespace ebbtide::plugin
