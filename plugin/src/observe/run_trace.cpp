#include "observe/run_trace.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <thread>
#include <utility>

#include "ebbtide/metrics/whole_file.hpp"
#include "ebbtide/scheduler/shown_text.hpp"
#include "nccl/nccl_side.hpp"
#include "observe/trace_file.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kSampleEveryNs = 100'000;

}  // namespace

std::int32_t threadNumber() noexcept {
  thread_local const auto number = static_cast<std::int32_t>(::gettid());
  return number;
}

RunTrace::RunTrace(const CurrentConfig& config, const TrainedMemory& memory, Warn warn)
    : config_(config), memory_(memory), warn_(std::move(warn)) {}

RunTrace::~RunTrace() {
  finish();
}

// -----------------------------------------------------------------------------------------------
// what is added

void RunTrace::add(const TracedSpan& span) noexcept {
  const Held held = guard_.hold();
  if (until_exit_) until_exit_->spans.add(span);
  if (running_ != nullptr) running_->spans.add(span);
}

void RunTrace::sampleMemory(bool always) noexcept {
  const std::int64_t now_ns = steadyNanoseconds();
  if (!always && now_ns - last_sample_ns_.load(std::memory_order_relaxed) < kSampleEveryNs) return;
  last_sample_ns_.store(now_ns, std::memory_order_relaxed);
  const allocator::BudgetTracker& tracker = memory_.memory().budgetTracker();
  const MemorySample sample{.at_ns = now_ns,
                            .allocated_bytes = tracker.liveBytes(),
                            .mapped_bytes = tracker.mappedBytes(),
                            .budget_bytes = tracker.budgetBytes()};
  const Held held = guard_.hold();
  if (until_exit_) until_exit_->samples.add(sample);
  if (running_ != nullptr) running_->samples.add(sample);
}

void RunTrace::noteOn(const Held&) noexcept {
  on_ = until_exit_ != nullptr || running_ != nullptr;
}

void RunTrace::beginStep(std::int64_t number) noexcept {
  const std::int64_t now_ns = steadyNanoseconds();
  const Held held = guard_.hold();
  last_begin_ns_ = now_ns;
  if (!asked_.beginsAt(number)) return;
  running_ = asked_for_.get();
  running_->begin_ns = now_ns;
  running_->first_step = number;
  noteOn(held);
}

void RunTrace::endStep(std::int64_t number) noexcept {
  const Held held = guard_.hold();
  if (until_exit_) {
    until_exit_->last_step = number;
    whole_steps_.add({number, last_begin_ns_});
  }
  if (running_ == nullptr) return;
  running_->last_step = number;
  if (!asked_.endsAt(number)) return;
  running_ = nullptr;
  noteOn(held);
}

// -----------------------------------------------------------------------------------------------
// what is asked for

void RunTrace::recordUntilExit() noexcept try {
  if (config_->files.perfetto.empty()) return;
  auto recording = std::make_unique<TraceRecording>();
  const Held held = guard_.hold();
  until_exit_ = std::move(recording);
  noteOn(held);
} catch (const std::exception& error) {
  warn_(fmt::format("no trace is recorded for EBBTIDE_PERFETTO: {}", error.what()));
}

// Beside the file that is written at exit, else the recorded steps, else among temporary files.
std::string RunTrace::pathFor(std::int64_t from_step) const {
  std::filesystem::path folder = config_->files.trace_dir;
  if (!config_->files.perfetto.empty()) {
    folder = std::filesystem::path(config_->files.perfetto).parent_path();
    if (folder.empty()) folder = ".";
  }
  if (folder.empty()) folder = temporaryFolder();
  const std::string name =
      fmt::format("ebbtide-{}-rank{}-step{}.perfetto.json", ::getpid(), config_->rank, from_step);
  std::error_code none;
  const auto whole = std::filesystem::absolute(folder / name, none);
  return none ? (folder / name).string() : whole.string();
}

AskedSteps::Started RunTrace::start(std::int64_t steps) {
  if (steps < 1 || steps > kMostSteps)
    return {.error = fmt::format("steps is not a whole number from 1 to {}", kMostSteps)};
  const auto prepare = [this](std::int64_t from_step) {
    auto recording = std::make_unique<TraceRecording>();
    std::string path = pathFor(from_step);  // may wait for a disk: not with the lock of add()
    const Held held = guard_.hold();
    asked_for_ = std::move(recording);
    return path;
  };
  return asked_.start(steps, prepare, [this](const std::string& path) {
    std::unique_ptr<TraceRecording> recording;
    {
      const Held held = guard_.hold();
      recording = std::move(asked_for_);
      running_ = nullptr;  // the process may end before the last of the steps
      noteOn(held);
    }
    write(*recording, path);
  });
}

void RunTrace::writeAtExit() noexcept {
  std::unique_ptr<TraceRecording> recording;
  {
    const Held held = guard_.hold();
    recording = std::move(until_exit_);
    noteOn(held);
    if (!recording) return;
    bool first = true;
    whole_steps_.forEach([&](const WholeStep& step) {
      if (!std::exchange(first, false)) return;
      recording->begin_ns = step.begin_ns;
      recording->first_step = step.number;
    });
  }
  write(*recording, config_->files.perfetto);
}

// Nothing that goes wrong here is a reason to end a run.
void RunTrace::write(const TraceRecording& recording, const std::string& path) const try {
  std::uint64_t cursor = 0;
  metrics::WholeFile file(path);
  writeTraceFile(recording, {.rank = config_->rank, .waits = ncclWaitsSince(cursor)}, file);
  if (!file.keep()) sayLost(path, file.reason());
} catch (const std::exception& error) {
  sayLost(path, error.what());
}

void RunTrace::sayLost(const std::string& path, const std::string& why) const {
  warn_(fmt::format("the trace could not be written to {}: {}",
                    scheduler::shownText(path, scheduler::kMostOfPath), why));
}

void RunTrace::finish() noexcept try {
  asked_.finish();
  std::thread([this] { writeAtExit(); }).join();
} catch (const std::exception& error) {
  warn_(fmt::format("the trace could not be written: {}", error.what()));
}

}  // namespace ebbtide::plugin
