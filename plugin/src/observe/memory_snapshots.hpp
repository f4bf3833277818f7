// MemorySnapshots: the blocks of one step, and what is left at its end, as a file for torch's
// memory viewers (snapshot_file.hpp). Torch-free.
//
// Thread rule: start() from any thread, the rest between steps with the session's lock, finish()
// without it. Nobody looks at the allocator but the thread that trains, between two steps.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "config/current_config.hpp"
#include "ebbtide/allocator/mapped_extent.hpp"
#include "memory/trained_memory.hpp"
#include "observe/asked_steps.hpp"
#include "observe/memory_history.hpp"

namespace ebbtide::plugin {

class MemorySnapshots {
 public:
  using Warn = std::function<void(const std::string&)>;
  // The configuration and the memory must outlive it.
  MemorySnapshots(const CurrentConfig& config, TrainedMemory& memory, Warn warn);
  ~MemorySnapshots() { finish(); }

  // Before the first step: says what a thread does, for the names of blocks.
  void setAsk(MemoryHistory::Ask ask) noexcept { ask_ = ask; }

  // Of the next step. `path`: of the file; empty: one among temporary files.
  AskedSteps::Started start(const std::string& path);

  void beginStep(std::int64_t number) noexcept;
  void endStep(std::int64_t number) noexcept;
  // The process ends: a step that runs is over, and whoever asks from now on is refused.
  void endEarly() noexcept;
  void finish() noexcept;  // what there is has been written when this returns

 private:
  void look() noexcept;
  void write(const std::string& path);
  void sayLost(const std::string& path, const std::string& why) const;
  std::string pathFor(std::int64_t from_step) const;

  const CurrentConfig& config_;
  TrainedMemory& memory_;
  const Warn warn_;
  MemoryHistory::Ask ask_ = nullptr;
  bool watches_ = false;  // with the session's lock

  std::mutex mutex_;  // guards what follows, but for the last
  std::shared_ptr<MemoryHistory> history_;
  allocator::MappedExtents mapped_;  // at the step's end
  AskedSteps asked_{"snapshot"};
};

}  // namespace ebbtide::plugin
