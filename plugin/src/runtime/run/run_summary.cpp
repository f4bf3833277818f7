#include "runtime/run/run_summary.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "ebbtide/scheduler/byte_size.hpp"
#include "out_of_memory/out_of_memory.hpp"

namespace ebbtide::plugin {
namespace {

using scheduler::formatBytes;

constexpr int kOtherPercent = 5;

// "98 ms", "1.2 s", "0.41 ms"
std::string timeText(double seconds) {
  const double ms = 1e3 * seconds;
  if (ms >= 9999.5) return fmt::format("{:.0f} s", seconds);
  if (ms >= 999.5) return fmt::format("{:.1f} s", seconds);
  return ms >= 9.95 ? fmt::format("{:.0f} ms", ms) : fmt::format("{:.2g} ms", ms);
}

std::string stepsText(const RunSummary& run) {
  std::string text = fmt::format("ended after {} step{}", run.steps, run.steps == 1 ? "" : "s");
  if (run.step_seconds > 0) text += " of " + timeText(run.step_seconds);
  return text;
}

// " (+4 % time)", rounded up
std::string costText(const RunSummary::Outlook& outlook, bool of_gpu) {
  if (outlook.spills)
    return of_gpu ? " (each step copies to the host)" : " (each step writes to disk)";
  if (!outlook.overhead_ratio) return "";
  return fmt::format(" (+{:.0f} % time)", std::ceil(100 * *outlook.overhead_ratio - 1e-9));
}

std::string outlookText(const RunSummary& run) {
  std::string text;
  const RunSummary::Bytes now = run.peak_bytes + run.others_bytes;
  const bool of_gpu = run.others_bytes > 0;
  const bool one_budget = asSetting(run.half.budget_bytes) == asSetting(run.smallest.budget_bytes);
  if (run.half.budget_bytes > 0 && run.half.budget_bytes < now && !one_budget) {
    text += ". Half of the activations: EBBTIDE_BUDGET=" + asSetting(run.half.budget_bytes) +
            costText(run.half, of_gpu);
  }
  if (run.smallest.budget_bytes > 0 && run.smallest.budget_bytes < now) {
    text += (text.empty() ? ". The smallest budget: EBBTIDE_BUDGET=" : "; the smallest: ") +
            asSetting(run.smallest.budget_bytes) + costText(run.smallest, of_gpu);
  }
  return text;
}

// A peak begins anew with each judgement, violations count from the budget's begin.
std::string violationsText(const RunSummary& run) {
  if (run.violations == 0) {
    if (run.others_bytes == 0 || run.used_peak_bytes <= *run.budget_bytes) return "never over it";
    return fmt::format("{} over it for a moment, as others took of the GPU",
                       formatBytes(run.used_peak_bytes - *run.budget_bytes));
  }
  return fmt::format(
      "{} time{} over it{}", run.violations, run.violations == 1 ? "" : "s",
      run.peak_bytes + run.others_bytes <= *run.budget_bytes ? " until it was judged" : "");
}

// Zeros are left out.
std::string addedTimeText(const RunSummary& run) {
  std::string text;
  const char* const place = run.others_bytes > 0 ? "the host" : "disk";
  if (run.recompute_share > 0)
    text += fmt::format("; recomputing takes {:.1f} % of the time", 100 * run.recompute_share);
  if (run.copy_share > 0)
    text += fmt::format("; copies to {} and back take {:.1f} %{}", place, 100 * run.copy_share,
                        text.empty() ? " of the time" : "");
  if (run.spilled_bytes > 0)
    text += fmt::format("; spilling wrote {} to {}", formatBytes(run.spilled_bytes), place);
  return text;
}

std::string othersText(const RunSummary& run) {
  if (run.others_bytes == 0) return "";
  return fmt::format(" beside {} in use outside of PyTorch's allocator",
                     formatBytes(run.others_bytes));
}

}  // namespace

std::string describe(const RunSummary& run) {
  std::string text = stepsText(run);
  if (run.peak_bytes == 0) return text;  // torch's own allocator
  text += ": peak " + formatBytes(run.peak_bytes) + othersText(run);
  if (!run.budget_bytes) {
    if (run.activation_bytes > 0) text += ", activations " + formatBytes(run.activation_bytes);
    return text + outlookText(run);
  }
  text += fmt::format("{} of the budget's {}, {}", run.others_bytes > 0 ? "," : "",
                      formatBytes(*run.budget_bytes), violationsText(run));
  if (run.plain_peak_bytes > run.peak_bytes)  // where nothing is dropped cache makes it the larger
    text += fmt::format("; plain peak {}", formatBytes(run.plain_peak_bytes));
  return text + addedTimeText(run);
}

bool peaksDiffer(const RankPeak& own, const RankPeak& other, std::int64_t whole_bytes) {
  const bool may_still_rise = other.bytes < own.bytes && 2 * other.steps < own.steps;
  return own.bytes > 0 && other.bytes > 0 && !may_still_rise &&
         std::abs(own.bytes - other.bytes) * 100 > whole_bytes * kOtherPercent;
}

}  // namespace ebbtide::plugin
