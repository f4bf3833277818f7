// Compiles a .cu file's kernels for the host: each thread of a warp is a fiber, and one that
// shuffles gives way to the next. A kernel that did not shuffle when it first ran needs no fibers
// from then on.
#pragma once

#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "seam.h"

#undef __global__
#undef __device__
#undef __host__
#define __global__
#define __device__
#define __host__

namespace on_host {

inline constexpr unsigned kLanes = 32;
// A launch of more threads runs as one warp, or as one thread of a kernel that never shuffles: ours
// stride over their grids. EMULATED_GPU_WHOLE_GRID runs them all.
inline constexpr unsigned long long kWholeThreads = 2048;

struct Place {
  dim3 thread, block, block_size, grid_size;
};
inline thread_local Place place;

class Warp {
 public:
  // body(data) for the threads `first` to `first + lanes` of a block.
  void run(unsigned first, unsigned lanes, void (*body)(void*), void* data) {
    first_ = first;
    lanes_ = lanes;
    body_ = body;
    data_ = data;
    for (Fiber& each : fibers_) each.done = false, each.turn = 0;
    for (bool left = true; left;) {
      left = false;
      for (unsigned i = 0; i < lanes_; ++i) {
        if (!fibers_[i].done) resume(i);
        left |= !fibers_[i].done;
      }
    }
  }

  template <typename T>
  T shuffleDown(T value, unsigned apart) {
    static_assert(sizeof(T) <= sizeof(unsigned long long));
    shuffled = true;
    const unsigned own = lane_;
    const int turn = fibers_[own].turn;
    fibers_[own].turn ^= 1;  // others may still read what was given before
    std::memcpy(&fibers_[own].given[turn], &value, sizeof value);
    if (_setjmp(fibers_[own].here) == 0) _longjmp(scheduler_, 1);
    const unsigned from = own + apart < lanes_ ? own + apart : own;
    T result;
    std::memcpy(&result, &fibers_[from].given[turn], sizeof result);
    return result;
  }

  bool shuffled = false;  // since it was set to false

 private:
  struct Fiber {
    ucontext_t context;
    jmp_buf here;
    std::unique_ptr<char[]> stack;
    bool done = false;
    int turn = 0;
    unsigned long long given[2] = {};
  };
  static constexpr std::size_t kStackBytes = std::size_t{64} << 10;
  inline static thread_local Warp* starting_ = nullptr;

  void resume(unsigned lane) {
    lane_ = lane;
    place.thread = dim3(first_ + lane, 0, 0);
    Fiber& fiber = fibers_[lane];
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.stack) _longjmp(fiber.here, 1);
    fiber.stack.reset(new char[kStackBytes]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Warp::begin, 0);
    starting_ = this;
    setcontext(&fiber.context);
  }
  // A fiber stays, and runs its lane of one warp after the other.
  static void begin() {
    Warp& self = *starting_;
    Fiber& own = self.fibers_[self.lane_];
    for (;;) {
      self.body_(self.data_);
      own.done = true;
      if (_setjmp(own.here) == 0) _longjmp(self.scheduler_, 1);
    }
  }

  Fiber fibers_[kLanes];
  jmp_buf scheduler_;
  void (*body_)(void*) = nullptr;
  void* data_ = nullptr;
  unsigned first_ = 0, lanes_ = 0, lane_ = 0;
};
inline thread_local Warp warp;

enum class Shuffles { kUnknown, kYes, kNo };

inline void runGrid(dim3 grid, dim3 block, Shuffles& shuffles, void (*body)(void*), void* data) {
  const auto threads = static_cast<unsigned long long>(grid.x) * block.x;
  if (threads > kWholeThreads && emulated_gpu_whole_grid() == 0) {
    grid.x = 1;
    block.x = shuffles == Shuffles::kNo ? 1 : kLanes;
  }
  place.block_size = block;
  place.grid_size = grid;
  warp.shuffled = false;
  for (unsigned b = 0; b < grid.x; ++b) {
    place.block = dim3(b, 0, 0);
    for (unsigned first = 0; first < block.x; first += kLanes) {
      const unsigned lanes = block.x - first < kLanes ? block.x - first : kLanes;
      if (shuffles != Shuffles::kNo) {
        warp.run(first, lanes, body, data);
        continue;
      }
      for (unsigned i = 0; i < lanes; ++i) {
        place.thread = dim3(first + i, 0, 0);
        body(data);
      }
    }
  }
  if (shuffles == Shuffles::kUnknown) shuffles = warp.shuffled ? Shuffles::kYes : Shuffles::kNo;
}

template <auto Kernel, typename... Arguments>
struct HostKernel {
  template <std::size_t... I>
  static std::tuple<std::remove_const_t<Arguments>...> read(void** at, std::index_sequence<I...>) {
    return {*static_cast<std::remove_const_t<Arguments>*>(at[I])...};
  }
  static void run(dim3 grid, dim3 block, void** arguments) {
    static Shuffles shuffles = Shuffles::kUnknown;  // under the device's lock
    auto values = read(arguments, std::index_sequence_for<Arguments...>{});
    const auto body = [](void* data) { std::apply(Kernel, *static_cast<decltype(values)*>(data)); };
    runGrid(grid, block, shuffles, body, &values);
  }
};

template <auto Kernel, typename... Arguments>
void registerKernel(const char* name, void (*)(Arguments...)) {
  static const std::size_t sizes[] = {sizeof(Arguments)...};
  emulated_gpu_register_kernel(name, sizes, sizeof...(Arguments),
                               &HostKernel<Kernel, Arguments...>::run);
}

}  // namespace on_host

#define threadIdx on_host::place.thread
#define blockIdx on_host::place.block
#define blockDim on_host::place.block_size
#define gridDim on_host::place.grid_size

template <typename T>
T __shfl_down_sync(unsigned, T value, int apart) {
  return on_host::warp.shuffleDown(value, static_cast<unsigned>(apart));
}
template <typename T>
T atomicAdd(T* at, T value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
inline long long clock64() {  // what spins is emulated by its time (kernels.cpp), and never runs
  static long long now = 0;
  return now += 1LL << 40;
}
