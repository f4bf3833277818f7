#include "runtime/run/run_files.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "ebbtide/metrics/whole_file.hpp"
#include "ebbtide/scheduler/shown_text.hpp"

namespace ebbtide::plugin {
namespace {

constexpr auto kFirstReport = std::chrono::seconds(1), kReportEvery = 10 * kFirstReport;
constexpr auto kWithoutStepEvery = 5 * kFirstReport;

}  // namespace

void RunFiles::writeTrace(const scheduler::Trace& trace, std::int64_t step) {
  const std::string path =
      fmt::format("{}/trace-{}-{}.json", config_->files.trace_dir, config_->rank, step);
  metrics::WholeFile file(path, metrics::WholeFile::kAsUsual);
  file.write(scheduler::toJson(trace));
  const bool kept = file.keep();
  if (trace_lost_.exchange(!kept) || kept) return;
  warn_(fmt::format("the trace could not be written to {}: {}; no more is said until one can be",
                    scheduler::shownText(path, scheduler::kMostOfPath), file.reason()));
}

void RunFiles::writeReport(const std::string& text) {
  metrics::WholeFile file(config_->files.report, metrics::WholeFile::kAsUsual);
  file.write(text);
  const bool kept = file.keep();
  if (report_lost_.exchange(!kept) || kept) return;
  warn_(fmt::format("the report could not be written to {}: {}",
                    scheduler::shownText(config_->files.report, scheduler::kMostOfPath),
                    file.reason()));
}

RunFiles::Time RunFiles::nextReport() const {
  return config_->files.report.empty() ? Time::max() : report_due_;
}

// A process that is killed (by the kernel, when memory is short) leaves its last report. A first
// step may take minutes, and need more memory than any other.
bool RunFiles::takesReport(bool any_step) {
  const auto now = std::chrono::steady_clock::now();
  report_due_ = now + (any_step ? kReportEvery : kFirstReport);
  if (!any_step) {
    const bool first_look = without_step_due_ == Time{};
    if (first_look) without_step_due_ = now + kFirstReport;
    if (now < without_step_due_) return false;
    without_step_due_ = now + kWithoutStepEvery;
  }
  std::error_code error;  // a pipe and a terminal take it once, at the end
  const auto type = std::filesystem::status(config_->files.report, error).type();
  using Type = std::filesystem::file_type;
  return type == Type::regular || type == Type::not_found;
}

}  // namespace ebbtide::plugin
