#include "observe/memory_snapshots.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "ebbtide/metrics/whole_file.hpp"
#include "ebbtide/scheduler/shown_text.hpp"
#include "observe/snapshot_file.hpp"

namespace ebbtide::plugin {

MemorySnapshots::MemorySnapshots(const CurrentConfig& config, TrainedMemory& memory, Warn warn)
    : config_(config), memory_(memory), warn_(std::move(warn)) {}

std::string MemorySnapshots::pathFor(std::int64_t from_step) const {
  const std::string folder =
      config_->files.trace_dir.empty() ? temporaryFolder() : config_->files.trace_dir;
  return fmt::format("{}/ebbtide-{}-rank{}-step{}.snapshot.pickle", folder, ::getpid(),
                     config_->rank, from_step);
}

AskedSteps::Started MemorySnapshots::start(const std::string& path) {
  if (!config_->own_allocator)
    return {.error = "EBBTIDE_ALLOCATOR=torch: what torch's allocator holds is not known here"};
  if (memory_.isElsewhere())
    return {.error = "the memory is a GPU's: torch.cuda.memory._dump_snapshot() writes it"};
  const auto prepare = [this, &path](std::int64_t from_step) {
    auto history = std::make_shared<MemoryHistory>(ask_);
    const std::string named = path.empty() ? pathFor(from_step) : path;
    std::error_code none;
    const auto whole = std::filesystem::absolute(named, none);  // may wait for a disk
    const std::lock_guard lock(mutex_);
    history_ = std::move(history);
    mapped_.clear();
    return none ? named : whole.string();
  };
  return asked_.start(1, prepare, [this](const std::string& file) { write(file); });
}

void MemorySnapshots::beginStep(std::int64_t number) noexcept {
  if (!asked_.beginsAt(number)) return;
  const std::lock_guard lock(mutex_);
  memory_.observer().watchBy(history_);
  watches_ = true;
}

void MemorySnapshots::endStep(std::int64_t number) noexcept {
  if (!watches_) return;
  look();
  asked_.endsAt(number);
}

void MemorySnapshots::endEarly() noexcept {
  if (watches_) look();
  asked_.close();
}

// What lives, and what is mapped, when the last event has been.
void MemorySnapshots::look() noexcept {
  watches_ = false;
  memory_.observer().watchBy(nullptr);
  try {
    allocator::MappedExtents mapped = memory_.host().mappedExtents();
    const std::lock_guard lock(mutex_);
    mapped_ = std::move(mapped);
  } catch (const std::exception&) {  // no memory for it: a history without segments
  }
}

// By the writer's thread. Nothing that goes wrong here is a reason to end a run.
void MemorySnapshots::write(const std::string& path) try {
  std::shared_ptr<MemoryHistory> history;
  allocator::MappedExtents mapped;
  {
    const std::lock_guard lock(mutex_);
    history = std::move(history_);
    mapped = std::move(mapped_);
  }
  metrics::WholeFile file(path);
  writeSnapshotFile(mapped, *history, file);
  if (!file.keep()) sayLost(path, file.reason());
} catch (const std::exception& error) {
  sayLost(path, error.what());
}

void MemorySnapshots::sayLost(const std::string& path, const std::string& why) const {
  warn_(fmt::format("the snapshot could not be written to {}: {}",
                    scheduler::shownText(path, scheduler::kMostOfPath), why));
}

void MemorySnapshots::finish() noexcept {
  asked_.finish();
}

}  // namespace ebbtide::plugin
