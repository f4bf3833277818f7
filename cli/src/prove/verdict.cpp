#include "prove/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ebbtide/metrics/or_null.hpp"
#include "shown_values.hpp"

namespace ebbtide::cli {
namespace {

using metrics::orNull;
using nlohmann::json;
using Kind = Verdict::Kind;

constexpr std::int64_t kFirstWithTime = 2;  // an update has the time since the one before

constexpr double kSteady = 1.1;  // of two equal runs' times

using Peak = std::optional<std::int64_t> RunReport::Peaks::*;

std::optional<std::int64_t> largest(const std::vector<RunReport>& reports, Peak peak) {
  std::optional<std::int64_t> most;
  for (const RunReport& report : reports) {
    const auto& bytes = report.peaks.*peak;
    if (bytes && (!most || *bytes > *most)) most = bytes;
  }
  return most;
}

// Rounded: the last step may have ended before its last update.
std::int64_t updatesAStep(std::int64_t updates, const RunReport& report) {
  if (report.steps.count <= 0) return 1;
  return std::max<std::int64_t>((2 * updates + report.steps.count) / (2 * report.steps.count), 1);
}

// The first update of a step that had a plan, on all ranks; nothing where one had none. Reports
// count steps from 0, and a step ends with its update, or with so many of several optimizers as the
// run made updates a step.
std::optional<std::int64_t> plannedFrom(const std::vector<RunReport>& reports,
                                        std::int64_t updates) {
  std::int64_t latest = kFirstWithTime;
  for (const RunReport& report : reports) {
    if (!report.plan || !report.steps.first_planned) return std::nullopt;
    latest = std::max(latest, *report.steps.first_planned * updatesAStep(updates, report) + 1);
  }
  return reports.empty() ? std::nullopt : std::optional(latest);
}

// Of the quicker plain run: what else ran on the machine made the other one slower.
void measure(Verdict& verdict, const Evidence& evidence, std::int64_t from) {
  verdict.bounded_seconds = medianSeconds(evidence.bounded, from);
  const auto first = medianSeconds(evidence.plain, from);
  const auto second = medianSeconds(evidence.again, from);
  if (!first || !second) return;
  verdict.plain_seconds = std::min(*first, *second);
  if (std::max(*first, *second) < kSteady * *verdict.plain_seconds) return;
  verdict.notes.push_back(fmt::format(
      "a step took {} in one plain run and {} in the other, so the time is rough: the machine is "
      "busy",
      shownSeconds(first), shownSeconds(second)));
}

void addTimes(Verdict& verdict, const Evidence& evidence) {
  verdict.planned_from = plannedFrom(evidence.reports, updatesOfAll(evidence.bounded));
  const auto planned =
      verdict.planned_from ? medianSeconds(evidence.bounded, *verdict.planned_from) : std::nullopt;
  if (!planned) verdict.planned_from.reset();  // too few steps for a median
  measure(verdict, evidence, verdict.planned_from.value_or(kFirstWithTime));
}

// What a step needs without a plan, of what the budget bounds; nothing: not known.
std::optional<std::int64_t> plainNeed(const RunReport& report) {
  if (!report.peaks.plain_bytes) return std::nullopt;
  return *report.peaks.plain_bytes + report.memory.others_bytes.value_or(0);
}

// A step that fits may drop all the same: plans leave a part of the budget free, and spills count
// mapped bytes.
bool droppedNothing(const RunReport& report) {
  const RunReport::Totals& done = report.totals;
  const bool fits =
      report.budget.bytes && plainNeed(report).value_or(INT64_MAX) < *report.budget.bytes;
  return fits && !report.plan && done.recomputed_ops.value_or(0) == 0 &&
         done.decoded_values.value_or(0) == 0 && done.offloaded_bytes.value_or(0) == 0 &&
         done.spilled_bytes.value_or(0) == 0 && done.dropped_online_bytes.value_or(0) == 0;
}

void addPlanNotes(Verdict& verdict, const Evidence& evidence) {
  const auto& reports = evidence.reports;
  if (verdict.planned_from || reports.empty()) return;
  if (std::all_of(reports.begin(), reports.end(), droppedNothing)) {
    verdict.dropped_nothing = true;
    if (verdict.kind != Kind::kIdentical) {
      verdict.notes.push_back(
          "nothing was dropped, so the budget did not do this: please report it");
      return;
    }
    const auto largest_peak = std::max_element(
        reports.begin(), reports.end(), [](const RunReport& a, const RunReport& b) {
          return plainNeed(a).value_or(0) < plainNeed(b).value_or(0);
        });
    verdict.notes.push_back(fmt::format(
        "a step needs {} and the budget is {}: nothing had to be proved. Take a lower budget",
        shownBytes(plainNeed(*largest_peak)), shownBytes(largest_peak->budget.bytes)));
    return;
  }
  verdict.notes.push_back(
      fmt::format("fewer than three of these steps followed a plan on all ranks, so the time is of "
                  "other steps, and few replays are proved. Type: --steps {}",
                  2 * std::max(evidence.asked_updates, verdict.updates)));
}

void addRankNotes(Verdict& verdict, const std::vector<RunReport>& reports) {
  for (const RunReport& report : reports) {
    if (report.pass_through) {
      verdict.notes.push_back(report.name() +
                              " switched to pass-through: it trained as PyTorch alone, without "
                              "the budget");
    }
    if (report.budget.violations.value_or(0) > 0) {
      verdict.notes.push_back(fmt::format("{} went over its budget: {} allocations", report.name(),
                                          *report.budget.violations));
    }
  }
}

void addSkippedNotes(Verdict& verdict, const RunLogs& logs) {
  std::map<std::string, std::int64_t> skipped;
  for (const ProofLog& log : logs) {
    for (const auto& [type, count] : log.skipped) skipped[type] += count;
  }
  for (const auto& [type, count] : skipped) {
    verdict.notes.push_back(
        fmt::format("not compared: {} parameter{} of type {}, which cannot be read as bytes", count,
                    count == 1 ? "" : "s", type));
  }
}

bool isOfEachProcess(const Evidence& evidence) {
  return evidence.reports.size() >= evidence.bounded.size();
}

std::string unjudgedBecause(const Evidence& evidence, const std::optional<Difference>& repeats) {
  if (repeats && repeats->what == Difference::What::kUnread) return describe(*repeats);
  if (isOfEachProcess(evidence)) return "";
  return fmt::format(
      "{} of {} processes left a report under the budget. --keep FOLDER keeps what they print, "
      "which tells why",
      evidence.reports.size(), evidence.bounded.size());
}

std::string identicalFor(const Verdict& verdict) {
  const std::string steps = verdict.updates == 1 ? "step" : "steps";
  std::string text = fmt::format("identical for {} {}", verdict.updates, steps);
  if (verdict.updates >= verdict.asked_updates) return text;
  return text + fmt::format(" (the program ended there; {} were asked for)", verdict.asked_updates);
}

std::string figures(const Verdict& verdict) {
  std::string text = verdict.dropped_nothing ? "; nothing was dropped" : "";
  if (verdict.plain_peak_bytes && verdict.mapped_peak_bytes) {
    text += "; " + shownChange(*verdict.plain_peak_bytes, *verdict.mapped_peak_bytes);
  }
  if (const auto ratio = verdict.timeRatio()) text += fmt::format("; {:.2f}x", *ratio);
  return text;
}

const char* nameOf(Kind kind) {
  switch (kind) {
    case Kind::kIdentical:
      return "identical";
    case Kind::kDiffers:
      return "differs";
    case Kind::kPlainDiffers:
      return "plain differs";
    case Kind::kUnjudged:
      return "not judged";
  }
  return "";
}

}  // namespace

std::optional<double> Verdict::timeRatio() const {
  if (dropped_nothing || !plain_seconds || !bounded_seconds || !(*plain_seconds > 0))
    return std::nullopt;
  return *bounded_seconds / *plain_seconds;
}

std::string Verdict::line() const {
  switch (kind) {
    case Kind::kIdentical:
      return identicalFor(*this) + figures(*this) + "; plain repeats itself: yes";
    case Kind::kDiffers:
      return "not identical: " + describe(*difference) + figures(*this) +
             "; plain repeats itself: yes";
    case Kind::kPlainDiffers:
      return "plain repeats itself: no, " + describe(*difference) +
             "; nothing can be judged. Seed what is random: torch.manual_seed(1)";
    case Kind::kUnjudged:
      return "nothing can be judged: " + problem;
  }
  return "";
}

json Verdict::toJson() const {
  json first;
  if (difference) first = {{"update", difference->update}, {"process", difference->process}};
  return {{"verdict", nameOf(kind)},
          {"text", line()},
          {"steps", updates},
          {"asked_steps", asked_updates},
          {"processes", processes},
          {"plain_repeats", kind == Kind::kUnjudged ? json() : json(kind != Kind::kPlainDiffers)},
          {"first_difference", first},
          {"plain_peak_bytes", orNull(plain_peak_bytes)},
          {"mapped_peak_bytes", orNull(mapped_peak_bytes)},
          {"plain_step_seconds", orNull(plain_seconds)},
          {"step_seconds", orNull(bounded_seconds)},
          {"time_ratio", orNull(timeRatio())},
          {"dropped_nothing", dropped_nothing},
          {"planned_from_step", orNull(planned_from)},
          {"notes", notes}};
}

Verdict judge(const Evidence& evidence) {
  Verdict verdict;
  verdict.asked_updates = evidence.asked_updates;
  verdict.updates = updatesOfAll(evidence.plain);
  verdict.processes = evidence.plain.size();
  const auto repeats = firstDifference(evidence.plain, evidence.again);
  const auto differs = firstDifference(evidence.plain, evidence.bounded);
  verdict.problem = unjudgedBecause(evidence, repeats);
  if (!verdict.problem.empty()) return verdict;
  verdict.plain_peak_bytes = largest(evidence.reports, &RunReport::Peaks::plain_bytes);
  verdict.mapped_peak_bytes = largest(evidence.reports, &RunReport::Peaks::mapped_bytes);
  verdict.difference = repeats ? repeats : differs;
  verdict.kind = repeats ? Kind::kPlainDiffers : differs ? Kind::kDiffers : Kind::kIdentical;
  addTimes(verdict, evidence);
  addPlanNotes(verdict, evidence);
  addRankNotes(verdict, evidence.reports);
  addSkippedNotes(verdict, evidence.plain);
  return verdict;
}

std::string shownChange(std::int64_t before, std::int64_t after) {
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  const auto from = static_cast<double>(before), to = static_cast<double>(after);
  const double most = std::max(from, to);
  if (most >= 10 * kGiB) return fmt::format("{:.2f} → {:.2f} GiB", from / kGiB, to / kGiB);
  const int decimals = most < 10 * kMiB ? 1 : 0;
  return fmt::format("{:.{}f} → {:.{}f} MiB", from / kMiB, decimals, to / kMiB, decimals);
}

}  // namespace ebbtide::cli
