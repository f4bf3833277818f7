// OpCalls: whether PyTorch tells us of each op that runs, and of each node of a backward pass. Each
// such call takes a quarter of a microsecond for an op and half a microsecond for a node, whatever
// we do in it. Includes torch.
//
//   told ── rest(): an op begins ── restInPass(): a node begins ─► its backward
//    ▲      after which no op            there, and no node             pass ends, however
//    │      of its step matters          matters either                       │
//    └── tell(): the same, a saved tensor that we take over, the step's end, ────────────┘
//        its optimizer, a thread that we do not know
//
// Calls rest only while a single thread computes. A second thread that appears meanwhile is noticed
// when it first allocates or saves: the op that it runs at that moment has begun unseen.
//
// Thread rule: any thread.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <mutex>

namespace ebbtide::plugin {

class OpCalls {
 public:
  // Once a process. The callbacks need not be of one kind.
  void install(const at::RecordFunctionCallback& ops, const at::RecordFunctionCallback& nodes);

  bool atRest() const noexcept { return at_rest_.load(std::memory_order_relaxed); }
  // From the calling thread's op on no op matters until tell(). Does nothing where another thread
  // computes.
  void rest();
  bool mayRest() const noexcept { return threads_.load(std::memory_order_relaxed) == 1; }
  // At rest, a node of a pass that the calling thread runs begins: the rest of the pass does not
  // matter either. When the pass is over, or fails, all is told again.
  void restInPass();
  void tell() noexcept;

  // For pthread_atfork: a child has no other thread that would release the mutex. PyTorch's list of
  // callbacks has a mutex too, which each node of a pass takes (ThreadLocalState). A fork may find
  // it locked: so a child that is not managed is told of its ops as before.
  void lockForFork() { mutex_.lock(); }
  void unlockAfterFork() { mutex_.unlock(); }

  // One for each thread that computes.
  class Thread {
   public:
    Thread();
    ~Thread();
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

    static bool isKnown() noexcept { return known(); }  // has, or had, the calling thread one?

   private:
    static bool& known() noexcept {
      thread_local bool value = false;
      return value;
    }
  };

 private:
  using Held = std::lock_guard<std::mutex>;

  void add(int threads) noexcept;
  void tellAll(const Held&) noexcept;

  std::mutex mutex_;  // guards what is told, and whether one thread alone computes
  at::CallbackHandle ops_ = at::INVALID_CALLBACK_HANDLE, nodes_ = at::INVALID_CALLBACK_HANDLE;
  bool ops_told_ = true, nodes_told_ = true;
  std::atomic<bool> at_rest_{false};  // ops are not told
  std::atomic<int> threads_{0};
};

OpCalls& opCalls();  // the process's

}  // namespace ebbtide::plugin
