// RunFiles: the files that a run leaves: its report, and the steps that it recorded. A disk that is
// full is told once, and no more until one can be written again. Torch-free.
//
// Thread rule: writing from any thread, one file by one at a time; when the next report is due is
// the planning thread's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "config/current_config.hpp"
#include "ebbtide/scheduler/trace.hpp"

namespace ebbtide::plugin {

class RunFiles {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Tell = std::function<void(const std::string& text)>;

  // The configuration must outlive it.
  RunFiles(const CurrentConfig& config, Tell warn) : config_(config), warn_(std::move(warn)) {}

  void writeTrace(const scheduler::Trace& trace, std::int64_t step);
  // The file may be on a disk that answers late, which is nobody's to wait for but the caller's.
  void writeReport(const std::string& text);

  Time nextReport() const;  // Time::max(): none is asked for
  // The report is due. True: write it; its file may be written again and again. Before a step is
  // over it is true 1 s after the first call, then every 5 s.
  bool takesReport(bool any_step);

 private:
  const CurrentConfig& config_;
  const Tell warn_;
  std::atomic<bool> trace_lost_{false};  // the last one could not be written
  std::atomic<bool> report_lost_{false};
  Time report_due_{};
  Time without_step_due_{};
};

}  // namespace ebbtide::plugin
