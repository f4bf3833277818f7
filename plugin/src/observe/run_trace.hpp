// RunTrace: what this rank did, and when, of the steps that somebody wants to look at; written as a
// file that Perfetto and chrome://tracing open (trace_file.hpp). Torch-free.
//
//   EBBTIDE_PERFETTO   ├─ ring ─────────────────────────────┤ exit: the last steps
//   start(3)                    asked ─► ├ step ┼ step ┼ step ┤ its thread writes
//
// Thread rule: any thread. add() takes a lock that is held for no longer than an add or an exchange
// of pointers; files are written by threads of ours. on() is false where nobody looks, and in
// forked children.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/guard.hpp"
#include "base/ring_buffer.hpp"
#include "base/system_time.hpp"
#include "config/current_config.hpp"
#include "memory/trained_memory.hpp"
#include "observe/asked_steps.hpp"

namespace ebbtide::plugin {

// Times: nanoseconds of the steady clock.
struct TracedSpan {
  enum class Kind : std::uint8_t {
    kStep,
    kForward,
    kBackward,
    kWait,       // for a message
    kRecompute,  // an op runs again
    kSpill,      // a value goes to the host
    kRestore,    // and comes back
    kEncode,     // or to bits
    kDecode,
    kAhead,  // all that is done before a message is waited for
  };
  Kind kind = Kind::kStep;
  std::int32_t thread = 0;  // the system's number
  std::int64_t begin_ns = 0, end_ns = 0;
  const char* op = nullptr;  // its name, which lives as long as the process
  std::int64_t number = 0;   // of the step, or bytes; 0: none
};

struct MemorySample {
  std::int64_t at_ns = 0;
  std::int64_t allocated_bytes = 0, mapped_bytes = 0;
  std::int64_t budget_bytes = 0;  // kUnlimited: none
};

struct TraceRecording {
  static constexpr std::size_t kMostSpans = 1 << 17, kMostSamples = 1 << 16;  // 8 MiB

  RingBuffer<TracedSpan> spans{kMostSpans};
  RingBuffer<MemorySample> samples{kMostSamples};
  std::int64_t begin_ns = 0;  // what began before is left out
  std::int64_t first_step = 0, last_step = 0;
};

std::int32_t threadNumber() noexcept;  // the system's, of the calling thread

class RunTrace {
 public:
  static constexpr std::size_t kLastSteps = 20;  // that are written at exit
  static constexpr int kMostSteps = 100;         // that start() takes

  using Warn = std::function<void(const std::string&)>;
  // The configuration and the memory must outlive it.
  RunTrace(const CurrentConfig& config, const TrainedMemory& memory, Warn warn);
  ~RunTrace();

  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  void add(const TracedSpan& span) noexcept;
  // At most one in 100 µs, unless it is `always` to be.
  void sampleMemory(bool always) noexcept;

  void recordUntilExit() noexcept;  // where EBBTIDE_PERFETTO is set
  // Of the next so many steps; the one that runs is not among them.
  AskedSteps::Started start(std::int64_t steps);

  void beginStep(std::int64_t number) noexcept;  // before anything of it is added
  void endStep(std::int64_t number) noexcept;
  void endEarly() noexcept { asked_.close(); }  // the process ends: nobody may ask any more
  void finish() noexcept;                       // at exit: what was recorded is written
  void beInert() noexcept {                     // in a forked child
    on_ = false;
  }

 private:
  using Held = Guard<RunTrace>::Held;

  void noteOn(const Held&) noexcept;
  void writeAtExit() noexcept;
  void write(const TraceRecording& recording, const std::string& path) const;
  void sayLost(const std::string& path, const std::string& why) const;
  std::string pathFor(std::int64_t from_step) const;

  const CurrentConfig& config_;
  const TrainedMemory& memory_;
  const Warn warn_;
  std::atomic<bool> on_{false};
  std::atomic<std::int64_t> last_sample_ns_{0};

  Guard<RunTrace> guard_;  // guards all below, but for the last
  std::unique_ptr<TraceRecording> until_exit_;
  struct WholeStep {
    std::int64_t number = 0, begin_ns = 0;
  };
  RingBuffer<WholeStep> whole_steps_{kLastSteps};  // in it
  std::int64_t last_begin_ns_ = 0;                 // of a step that began
  std::unique_ptr<TraceRecording> asked_for_;
  TraceRecording* running_ = nullptr;  // that, while its steps run
  AskedSteps asked_{"trace"};
};

}  // namespace ebbtide::plugin
