// MetricsExport: what this rank's series are set to: gauges at the end of each step, what is learnt
// of the rank, and the file of its series. Torch-free.
//
// Thread rule: what takes no Held from any thread, but for the file, which is the planning thread's
// and once that has ended the one's that ended it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/current_config.hpp"
#include "device/gpu_identity.hpp"
#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/metrics/rank_metrics.hpp"
#include "ebbtide/metrics/series_file.hpp"
#include "plan/plan.hpp"
#include "runtime/run/run_figures.hpp"
#include "runtime/run/session_guard.hpp"
#include "runtime/steps/step_summary.hpp"

namespace ebbtide::plugin {

class MetricsExport {
 public:
  using Held = SessionGuard::Held;
  using Time = std::chrono::steady_clock::time_point;
  using Tell = std::function<void(const std::string& text)>;

  // The configuration must outlive it.
  MetricsExport(const CurrentConfig& config, const std::string& torch_version, Tell warn,
                Tell debug);

  // What others count there.
  metrics::RankMetrics& series() noexcept { return series_; }
  std::string render(metrics::Format format) const { return series_.render(format); }

  // --- the rank
  void becomeRank();  // that of the configuration, which is another one now
  void noteStart();   // its first step begins
  void noteBudget(std::optional<std::int64_t> bytes);
  void noteSmallestBudget(std::int64_t bytes);  // as whoever asks is told; 0: not known
  void noteGpu(const Held&, GpuIdentity gpu);
  const std::optional<GpuIdentity>& gpu(const Held&) const { return gpu_; }
  // Those that it runs, where they are known: by the ranks of its pipeline, by the program's names.
  void noteStages(const Held&, const std::vector<std::int32_t>& stages);
  void learnStages(const Held& held, const StepSummary& summary);
  const std::vector<std::int32_t>& stages(const Held&) const { return stages_; }

  // --- steps
  struct Step {  // one that is over
    const allocator::Statistics& memory;
    const RunFigures& figures;
    const std::shared_ptr<const Plan>& plan;   // that it began with; nullptr: none
    const std::shared_ptr<const Plan>& shown;  // that whoever asks is told; nullptr: none
    double seconds = 0;
  };
  void noteStep(const Held&, const Step& step);
  void noteShown(const Held&, const std::shared_ptr<const Plan>& shown);  // as a step's
  void noteViolations(std::int64_t violations);  // of the budget, in the process so far
  void expectReplays(const Plan& plan);          // of a plan that steps are about to follow

  // --- the file
  void openFile();  // that of the configuration, in place of the one before
  Time nextFile() const;
  void writeFile(bool ends);  // `ends`: no step comes any more

 private:
  const CurrentConfig& config_;
  const Tell warn_, debug_;
  metrics::RankMetrics series_;
  std::optional<metrics::SeriesFile> file_;
  // The guard guards these.
  std::shared_ptr<const Plan> exported_plan_;  // that is told
  std::optional<GpuIdentity> gpu_;
  std::vector<std::int32_t> stages_;
};

}  // namespace ebbtide::plugin
