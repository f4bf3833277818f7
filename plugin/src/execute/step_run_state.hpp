// What a StepRun keeps of each op and value. Private to step_run*.cpp. Includes torch.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "execute/poison_scope.hpp"
#include "execute/run_value.hpp"
#include "execute/step_run.hpp"

namespace ebbtide::plugin {

using scheduler::kNone;

// RunOp::kept_because
inline constexpr const char* kUninitialised = "of uninitialised memory";
inline constexpr const char* kWrittenUnseen = "changed by something unseen";
inline constexpr const char* kReadBeyond = "bytes that it did not give are read";

c10::Storage duplicateStorage(const c10::Storage& storage);

struct StepRun::RunOp {
  const OpInfo* info = nullptr;
  std::uint64_t signature = 0;
  std::uint64_t aligned_signature = 0;  // by the plan's numbers, once they are others
  std::uint64_t known_signature = 0;    // the plan's, of an op of it
  TimeSpan time;                        // that it took
  const char* kept_because = nullptr;   // nullptr: it may run again
  bool filled = false;                  // its memory was, with zeros, before it ran first
  bool on_plan = false;                 // one of the plan's
  bool updates_statistics = false;      // OpInfo: which are neither inputs nor outputs here
  bool finished = false;
  bool compared = false;  // what it gave in a rehearsal, where contents are defined
  std::size_t log_position = 0;
  ValueId first_value = kNone;  // of those made since it began
  UseId first_use = kNone;
  std::unique_ptr<Recipe> recipe;
  std::vector<ValueId> inputs;
  std::vector<std::pair<int, ValueId>> written;  // output epochs of arguments written in place
  std::vector<ValueId> outputs;
  std::vector<std::pair<int, ValueId>> output_of;  // (index among returned tensors, value)
};

// What may be given up.
struct StepRun::Victim {
  double score = 0;  // the smallest goes first
  ValueId value = kNone;
  bool exact = false;  // else a lower bound
};

// What has to run again, in one restore, to have a value back.
struct StepRun::Chain {
  std::vector<OpId> ops;          // each once
  std::vector<ValueId> unmarked;  // values on the way that are not recomputable yet
  double duration_ns = 0;         // with fetches that are for its sake alone
  std::int64_t most_bytes = 0;    // that may live meanwhile, parameters and sources apart
  std::int64_t peak_bytes = 0;
  std::int64_t held_bytes = 0;  // by what has come back so far
};

struct StepRun::Use {
  ValueId value = kNone;
  const TensorView* view = nullptr;  // what it reads of it; its hook's, until it is released
  bool released = false;
  std::uint32_t visits = 0;  // events in which it was unpacked so far
  bool left_over = false;    // its graph was kept at the last one that the plan knows
  // Of the tensor when it was saved: not to be followed, autograd keeps it as long as the use.
  const torch::autograd::Node* maker = nullptr;
  std::int64_t maker_output = 0;
  bool detached = false;  // in place, since
};

struct StepRun::Present {
  // Parts of a storage may count their versions apart. A counter that moved with no recorded write
  // says that the contents are unknown.
  struct Counter {
    WeakVersion version;
    std::uint32_t known = 0;

    bool moved() const { return version.enabled() && version.current() != known; }
  };
  using Counters = c10::SmallVector<Counter, 1>;
  static constexpr std::size_t kMostCounters = 8;

  static std::uint32_t versionOf(const at::Tensor& tensor) {
    const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
    return version.enabled() ? static_cast<std::uint32_t>(version.current_version()) : 0;
  }
  const Counter* counterOf(const at::Tensor& tensor) const {
    const void* const wanted = identityOf(tensor.unsafeGetTensorImpl()->version_counter());
    for (const Counter& counter : counters) {
      if (counter.version.identity() == wanted) return &counter;
    }
    return nullptr;
  }
  // No part of it was written without an op that we know.
  bool untouched() const {
    return std::all_of(counters.begin(), counters.end(),
                       [](const Counter& counter) { return !counter.moved(); });
  }
  void add(const Counter& counter) {
    if (counters.size() == kMostCounters) counters.erase(counters.begin() + 1);
    counters.push_back(counter);
  }

  WeakStorage storage;
  ValueId value = kNone;
  Counters counters;  // the first: of the tensor that the value was born as
};

// A leaf, known by its address and its version counter. No reference to it, weak or strong: PyTorch
// swaps no tensor that has one (torch.utils.swap_tensors), and a step may rest for long.
struct StepRun::Trained {
  ValueId value = kNone;
  const c10::TensorImpl* leaf = nullptr;  // not to be followed
  Present::Counter counter;               // when the step read it first
  WeakStorage storage;                    // that it had then
  const c10::StorageImpl* now = nullptr;  // that it has: another one after `p.data = …`
  bool is_part = false;                   // of its storage, which may outlive it

  // An address is used again once its tensor is gone, the counter's not while this holds it.
  bool is(const c10::TensorImpl& tensor) const {
    return &tensor == leaf && identityOf(tensor.version_counter()) == counter.version.identity();
  }
};

// Holds mutex_. What is given up meanwhile is freed after it.
class StepRun::Locked {
 public:
  explicit Locked(StepRun& run) : run_(run), lock_(run.mutex_) {}
  ~Locked() {
    std::vector<c10::Storage> freed_last = std::exchange(run_.given_up_, {});
    if (run_.restoring_ == std::this_thread::get_id()) run_.keepForeign(freed_last);
    lock_.unlock();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  StepRun& run_;
  std::unique_lock<std::mutex> lock_;
};

// Holds restore_mutex_. Memory that is not ours, or that Python knows, is freed after it: that may
// need Python's lock, and who has it may wait here.
class StepRun::RestoreScope {
 public:
  explicit RestoreScope(StepRun& run) : run_(run), lock_(run.restore_mutex_) { begin(); }
  RestoreScope(StepRun& run, std::try_to_lock_t)
      : run_(run), lock_(run.restore_mutex_, std::try_to_lock) {
    if (lock_) begin();
  }
  ~RestoreScope() {
    if (!lock_) return;
    run_.restoring_ = std::thread::id();
    lock_.unlock();
    const Locked lock(run_);
  }
  bool held() const { return lock_.owns_lock(); }
  RestoreScope(const RestoreScope&) = delete;
  RestoreScope& operator=(const RestoreScope&) = delete;

 private:
  void begin() { run_.restoring_ = std::this_thread::get_id(); }

  StepRun& run_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace ebbtide::plugin
