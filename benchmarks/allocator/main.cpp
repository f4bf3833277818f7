// Allocators on recorded steps: allocator_benchmark NAME=TRACE... [--benchmark_...]
//
// Names say what is measured, the trace, the allocator; figures are counters:
//   time/TRACE/BLOCKS/ALLOCATOR, touch/...     ns_per_pair: processor time of allocation and free
//   fragmentation/TRACE/ALLOCATOR/BUDGET       live_peak, mapped_peak, refused, ...
//   threads/TRACE/ALLOCATOR/streams:N/...      items_per_second: pairs of all threads
#include <benchmark/benchmark.h>

#include <condition_variable>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "placed_loop.hpp"
#include "replay.hpp"
#include "subjects.hpp"

namespace ebbtide::benchmarks {
namespace {

using allocator::DeviceMemory;
using allocator::Stream;

constexpr Bytes kLeastLargeBytes = 32 * 1024 + 1;

// A loop, and where its blocks go; placed when it is first asked for.
class Recording {
 public:
  explicit Recording(ReplayLoop loop) : loop_(std::move(loop)) {}

  const ReplayLoop& loop() const noexcept { return loop_; }
  const plugin::PlacedStep& placed() const {
    if (placed_ == nullptr) placed_ = std::make_shared<const plugin::PlacedStep>(placeLoop(loop_));
    return *placed_;
  }
  std::shared_ptr<const allocator::PlacedSequence> places() const {
    return {placed_, &placed().sequence};
  }

 private:
  ReplayLoop loop_;
  mutable std::shared_ptr<const plugin::PlacedStep> placed_;
};
struct Named {
  std::string name;
  Recording all, large;
};

Named readTrace(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos) throw std::invalid_argument(argument + ": not NAME=TRACE");
  std::ifstream file(argument.substr(equals + 1), std::ios::binary);
  if (!file) throw std::invalid_argument("cannot read " + argument.substr(equals + 1));
  std::ostringstream text;
  text << file.rdbuf();
  const AllocationTrace trace = parseAllocationTrace(text.str());
  return {argument.substr(0, equals), Recording(makeReplayLoop(trace, 1)),
          Recording(makeReplayLoop(trace, kLeastLargeBytes))};
}

// -----------------------------------------------------------------------------------------------
// time

template <typename Subject, Touch touch>
void timeReplay(benchmark::State& state, const Recording& recording) {
  const ReplayLoop& loop = recording.loop();
  Replay<Subject, touch> replay(loop, [&](Subject& subject) {
    if constexpr (std::is_same_v<Subject, Planned>) subject.follow(recording.places());
  });
  replay.once();
  replay.once();
  for (auto _ : state) replay.once();
  state.counters["ns_per_pair"] = benchmark::Counter(
      static_cast<double>(loop.allocations) * 1e-9,
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["pairs"] = static_cast<double>(loop.allocations);
}

template <typename Subject>
void registerTimes(const Named& trace, const std::string& subject) {
  for (const bool only_large : {false, true}) {
    const Recording& recording = only_large ? trace.large : trace.all;
    const std::string name = trace.name + (only_large ? "/large/" : "/all/") + subject;
    benchmark::RegisterBenchmark(("time/" + name).c_str(), [&recording](benchmark::State& state) {
      timeReplay<Subject, Touch::kNothing>(state, recording);
    });
    constexpr bool kTouches =
        !std::is_same_v<Subject, NoMemory> && !std::is_base_of_v<Watched, Subject>;
    if (only_large || !kTouches) continue;
    benchmark::RegisterBenchmark(("touch/" + name).c_str(), [&recording](benchmark::State& state) {
      timeReplay<Subject, Touch::kPages>(state, recording);
    });
  }
}

// -----------------------------------------------------------------------------------------------
// fragmentation

constexpr int kFragmentationLoops = 4;

// The mapped peak is that of all loops, the steady one that of the last.
template <typename Subject>
void report(benchmark::State& state, Replay<Subject, Touch::kNothing>& replay,
            const ReplayLoop& loop) {
  DeviceMemory& memory = replay.subject().memory();
  for (int i = 0; i < kFragmentationLoops; ++i) replay.once();
  const allocator::Statistics statistics = memory.statistics();
  memory.resetPeaks();
  replay.once();
  state.counters["live_peak"] = static_cast<double>(loop.live_peak_bytes);
  state.counters["mapped_peak"] = static_cast<double>(statistics.mapped_peak_bytes);
  state.counters["mapped_steady"] = static_cast<double>(memory.statistics().mapped_peak_bytes);
  state.counters["refused"] = static_cast<double>(replay.refused());
  state.counters["planned"] = static_cast<double>(statistics.planned_allocations);
  state.counters["deviations"] = static_cast<double>(statistics.plan_deviations);
  state.counters["allocations"] = static_cast<double>(statistics.allocations);
}

// budget_bytes 0: none.
void measureFallback(benchmark::State& state, const ReplayLoop& loop, Bytes budget_bytes) {
  for (auto _ : state) {
    Replay<Fallback, Touch::kNothing> replay(loop, [&](Fallback& subject) {
      subject.memory().limitOverrun(0);
      if (budget_bytes > 0) subject.memory().setBudget(budget_bytes);
    });
    report(state, replay, loop);
  }
}

void measurePlanned(benchmark::State& state, const Recording& recording, Bytes budget_bytes,
                    bool first_step_is_planned) {
  const ReplayLoop& loop = recording.loop();
  for (auto _ : state) {
    Replay<Planned, Touch::kNothing> replay(loop, [&](Planned& subject) {
      subject.memory().limitOverrun(0);
      if (budget_bytes > 0) subject.memory().setBudget(budget_bytes);
    });
    if (!first_step_is_planned) replay.once();
    replay.subject().follow(recording.places());
    report(state, replay, loop);
    state.counters["placed"] = static_cast<double>(recording.placed().placement.offsets.size());
    state.counters["load"] = static_cast<double>(recording.placed().placement.load_bytes);
    state.counters["height"] = static_cast<double>(recording.placed().placement.height_bytes);
  }
}

void registerFragmentation(const Named& trace) {
  const Recording& recording = trace.all;
  const ReplayLoop& loop = recording.loop();
  const auto add = [&](const std::string& name, auto&& run) {
    benchmark::RegisterBenchmark(("fragmentation/" + trace.name + name).c_str(), run)
        ->Iterations(1);
  };
  for (const double share : {0.0, 0.99, 0.92}) {
    const Bytes budget =
        share == 0 ? 0 : static_cast<Bytes>(static_cast<double>(loop.live_peak_bytes) / share);
    std::ostringstream text;
    text << (share == 0 ? "/none" : "/live over ");
    if (share != 0) text << share;
    add("/fallback" + text.str(),
        [&loop, budget](benchmark::State& state) { measureFallback(state, loop, budget); });
    add("/planned" + text.str(), [&recording, budget](benchmark::State& state) {
      measurePlanned(state, recording, budget, /*first_step_is_planned=*/true);
    });
    add("/planned after a step" + text.str(), [&recording, budget](benchmark::State& state) {
      measurePlanned(state, recording, budget, /*first_step_is_planned=*/false);
    });
  }
}

// -----------------------------------------------------------------------------------------------
// threads

constexpr std::size_t kWindow = 256;           // blocks that live at once, of each thread
constexpr std::size_t kExchanges = 64 * 1024;  // pairs an iteration

struct Exchange {
  std::uint32_t slot;
  std::uint32_t bytes;
};

// Sizes as in the trace, in an order of its own for each thread.
std::vector<Exchange> exchangesOf(const ReplayLoop& loop, int thread) {
  std::vector<std::uint32_t> sizes;
  for (const std::vector<ReplayLoop::Event>& step : loop.steps) {
    for (const ReplayLoop::Event& event : step) {
      if (event.bytes > 0) sizes.push_back(static_cast<std::uint32_t>(event.bytes));
    }
  }
  std::mt19937 random(static_cast<unsigned>(thread));
  std::vector<Exchange> exchanges(kExchanges);
  for (Exchange& exchange : exchanges) {
    exchange.slot = static_cast<std::uint32_t>(random() % kWindow);
    exchange.bytes = sizes[random() % sizes.size()];
  }
  return exchanges;
}

template <typename Allocate, typename Free>
void exchangeBlocks(benchmark::State& state, const ReplayLoop& loop, Allocate&& allocate,
                    Free&& free) {
  const std::vector<Exchange> exchanges = exchangesOf(loop, state.thread_index());
  std::vector<void*> window(kWindow);
  for (auto _ : state) {
    for (const Exchange& exchange : exchanges) {
      void*& block = window[exchange.slot];
      if (block != nullptr) free(block);
      block = allocate(exchange.bytes);
      benchmark::DoNotOptimize(block);
    }
    for (void*& block : window) {
      if (block != nullptr) free(std::exchange(block, nullptr));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kExchanges));
}

void registerThreads(const Named& trace) {
  static std::unique_ptr<DeviceMemory> memory;
  const ReplayLoop& loop = trace.all.loop();
  for (const int streams : {1, 4}) {
    auto* const run = benchmark::RegisterBenchmark(
        ("threads/" + trace.name + "/fallback/streams:" + std::to_string(streams)).c_str(),
        [&loop, streams](benchmark::State& state) {
          // Others wait in the loop's head until this one is there, too.
          if (state.thread_index() == 0) memory = makeHostMemory();
          const auto stream = static_cast<Stream>(state.thread_index() % streams);
          exchangeBlocks(
              state, loop, [&](std::uint32_t bytes) { return memory->allocate(bytes, stream); },
              [&](void* block) { memory->deallocate(block); });
        });
    for (const int threads : {1, 2, 4, 8}) run->Threads(threads);
    run->UseRealTime();
  }
  auto* const run = benchmark::RegisterBenchmark(
      ("threads/" + trace.name + "/malloc").c_str(), [&loop](benchmark::State& state) {
        exchangeBlocks(
            state, loop, [](std::uint32_t bytes) { return std::malloc(bytes); },
            [](void* block) { std::free(block); });
      });
  for (const int threads : {1, 2, 4, 8}) run->Threads(threads);
  run->UseRealTime();
}

void registerAll(const std::vector<Named>& traces) {
  for (const Named& trace : traces) {
    registerTimes<NoMemory>(trace, "none");
    registerTimes<Planned>(trace, "planned");
    registerTimes<Fallback>(trace, "fallback");
    registerTimes<Watched>(trace, "watched");
    registerTimes<WatchedOutside>(trace, "watched-outside");
#ifdef EBBTIDE_BENCHMARK_TORCH
    registerTimes<TorchCpu>(trace, "torch");
#endif
    registerTimes<Malloc>(trace, "malloc");
    registerFragmentation(trace);
    registerThreads(trace);
  }
}

// A process that trains has threads, and the C library's locks are dearer then.
class IdleThread {
 public:
  ~IdleThread() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_{[this] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return over_; });
  }};
};

}  // namespace
}  // namespace ebbtide::benchmarks

int main(int argc, char** argv) {
  namespace benchmarks = ebbtide::benchmarks;
  benchmark::Initialize(&argc, argv);
  std::vector<benchmarks::Named> traces;
  try {
    for (int i = 1; i < argc; ++i) traces.push_back(benchmarks::readTrace(argv[i]));
  } catch (const std::exception& error) {
    std::cerr << "allocator_benchmark: " << error.what() << '\n';
    return 2;
  }
  benchmarks::registerAll(traces);
  const benchmarks::IdleThread idle_thread;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
