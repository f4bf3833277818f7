#include "live/top_frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "live/trend_line.hpp"
#include "shown_values.hpp"
#include "terminal_text.hpp"

namespace ebbtide::cli {
namespace {

// Columns, with a space before each but the first. Where the screen is narrower the last ones are
// left out; where it is wider bars and trends grow.
constexpr int kRankWidth = 5, kStateWidth = 8, kMemoryWidth = 17, kShareWidth = 6, kStepWidth = 8;
constexpr int kLeastBar = 10, kLeastTrend = 6;
constexpr int kHeadLines = 3, kFootLines = 3;

struct Layout {
  int bar = 0, trend = 0;
  bool memory = false, share = false, step = false;
};

Layout layoutFor(int columns) {
  Layout layout;
  int room = columns - kRankWidth - 1 - kStateWidth;
  const auto take = [&](int width) {
    const bool fits = room >= width + 1;
    if (fits) room -= width + 1;
    return fits;
  };
  if (take(kLeastBar)) layout.bar = kLeastBar;
  layout.memory = take(kMemoryWidth);
  layout.share = layout.memory && take(kShareWidth);
  layout.step = layout.share && take(kStepWidth);
  if (layout.step && take(kLeastTrend)) layout.trend = kLeastTrend;
  if (layout.bar == 0) return layout;
  // Of what is left half for either; a trend has 120 steps at most.
  const int more_trend = layout.trend > 0 ? std::min(room / 2, 120 - kLeastTrend) : 0;
  layout.trend += more_trend;
  layout.bar += std::min(room - more_trend, 60 - kLeastBar);
  return layout;
}

// Cuts to `width` code points.
std::string cut(const std::string& text, int width) {
  int columns = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0U) == 0x80) continue;
    if (columns == width) return text.substr(0, i);
    ++columns;
  }
  return text;
}

std::string padded(const std::string& text, int width, bool right) {
  const std::string shown = cut(text, width);
  const std::string space(static_cast<std::size_t>(width - columnsOf(shown)), ' ');
  return right ? space + shown : shown + space;
}

FrameLine cutLine(FrameLine line, int width) {
  for (StyledText& part : line.parts) {
    part.text = cut(part.text, std::max(width, 0));
    width -= columnsOf(part.text);
  }
  return line;
}

FrameLine plain(std::string text, TextStyle style = TextStyle::kPlain) {
  return {.parts = {{std::move(text), style}}};
}

TextStyle styleOf(const std::string& state) {
  if (state == "training") return TextStyle::kGood;
  if (state == "pass-through") return TextStyle::kBad;
  return state == "paused" ? TextStyle::kWarning : TextStyle::kFaint;
}

double barScale(const RankRow& status, double most_bytes) {
  const double budget = status.isLimited() ? static_cast<double>(*status.memory.budget_bytes) : 0;
  const auto peak = static_cast<double>(status.boundedPeakBytes().value_or(0));
  return budget > 0 ? std::max(budget, peak) : most_bytes;
}

// Live bytes, then the peak, then what others hold of a GPU, then what the budget has left; what is
// over the budget is red. Without a budget the scale is the largest peak that is shown.
std::vector<StyledText> bar(const RankRow& status, int width, double most_bytes, bool unicode) {
  const double scale = barScale(status, most_bytes);
  const auto cells = [&](double bytes) {
    if (!(scale > 0)) return 0;
    return std::clamp(static_cast<int>(std::lround(bytes / scale * width)), 0, width);
  };
  const int held = cells(static_cast<double>(status.boundedPeakBytes().value_or(0)));
  const int peak = std::min(cells(static_cast<double>(status.memory.peak_bytes.value_or(0))), held);
  const int live = std::min(cells(static_cast<double>(status.memory.live_bytes.value_or(0))), peak);
  const bool limited = status.memory.budget_bytes.has_value();
  const int budget = limited ? cells(static_cast<double>(*status.memory.budget_bytes)) : width;
  const auto repeated = [&](const char* ascii, const char* wide, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += unicode ? wide : ascii;
    return text;
  };
  const int inside = std::min(peak, budget);
  const int held_inside = std::min(held, budget);
  return {{repeated("#", "█", std::min(live, inside)), TextStyle::kGood},
          {repeated("=", "▒", inside - std::min(live, inside)), TextStyle::kWarning},
          {repeated("-", "░", held_inside - inside), TextStyle::kFaint},
          {repeated("!", "▓", held - held_inside), TextStyle::kBad},
          {repeated(limited ? "." : " ", limited ? "·" : " ", width - held), TextStyle::kFaint}};
}

// "15.50 / 16.00 GiB": both in the unit of the larger one.
std::string memoryText(const RankRow& status) {
  const auto held = status.boundedPeakBytes();
  if (!held) return "-";
  if (!status.isLimited()) return shownBytes(held) + " / none";
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}}};
  const auto larger = static_cast<double>(std::max(*held, *status.memory.budget_bytes));
  for (const auto& [bytes, name] : kUnits) {
    const double most = larger / bytes;
    if (most < 1) continue;
    const int decimals = most < 100 ? 2 : most < 1000 ? 1 : 0;
    return fmt::format("{:.{}f} / {:.{}f} {}", static_cast<double>(*held) / bytes, decimals,
                       static_cast<double>(*status.memory.budget_bytes) / bytes, decimals, name);
  }
  return fmt::format("{} / {} B", *held, *status.memory.budget_bytes);
}

FrameLine row(const RankRow& status, const Layout& layout, TopModel::Trend trend, double most_bytes,
              bool unicode) {
  FrameLine line;
  const auto add = [&](const std::string& text, TextStyle style = TextStyle::kPlain) {
    line.parts.push_back({text, style});
  };
  add(padded(status.rank < 0 ? "-" : std::to_string(status.rank), kRankWidth, true) + " ");
  if (!status.problem.empty()) {
    add((status.where.empty() ? "" : status.where + ": ") + status.problem, TextStyle::kBad);
    return line;
  }
  add(padded(status.state, kStateWidth, false), styleOf(status.state));
  if (layout.bar > 0) {
    add(" ");
    for (StyledText& part : bar(status, layout.bar, most_bytes, unicode)) {
      line.parts.push_back(std::move(part));
    }
  }
  const bool violated = status.violations.value_or(0) > 0;
  if (layout.memory) {
    add(" " + padded(memoryText(status), kMemoryWidth, true),
        violated ? TextStyle::kBad : TextStyle::kPlain);
  }
  if (layout.share) add(" " + padded(shownShare(status.recompute_ratio), kShareWidth, true));
  if (layout.step) add(" " + padded(shownSeconds(status.steps.median_seconds), kStepWidth, true));
  if (layout.trend > 0) {
    const auto& values = trend == TopModel::Trend::kStepTime ? status.history.step_seconds
                                                             : status.history.peak_bytes;
    add(" " + trendLine(values, layout.trend, unicode), TextStyle::kFaint);
  }
  return line;
}

FrameLine titles(const Layout& layout, TopModel::Trend trend) {
  std::string text = padded("rank", kRankWidth, true) + " " + padded("state", kStateWidth, false);
  if (layout.bar > 0) text += " " + padded("live, peak", layout.bar, false);
  if (layout.memory) text += " " + padded("peak / budget", kMemoryWidth, true);
  if (layout.share) text += " " + padded("recomp", kShareWidth, true);
  if (layout.step) text += " " + padded("step", kStepWidth, true);
  if (layout.trend > 0) {
    const bool steps = trend == TopModel::Trend::kStepTime;
    text += " " + padded(steps ? "step times" : "peaks", layout.trend, false);
  }
  return plain(std::move(text), TextStyle::kFaint);
}

struct Summary {
  int training = 0, silent = 0;
  std::int64_t violations = 0;
  double peak_bytes = 0, limited_bytes = 0, budget_bytes = 0, slowest_seconds = -1;
  int ranks = 0, slowest_rank = 0, without_budget = 0;
  std::string slowest_job;
  double most_bytes = 0;  // the largest peak of one rank
};

Summary summaryOf(std::span<const RankRow> rows) {
  Summary sum;
  for (const RankRow& status : rows) {
    sum.ranks += status.rank >= 0 ? 1 : 0;
    if (!status.problem.empty()) {
      ++sum.silent;
      continue;
    }
    sum.training += status.state == "training" ? 1 : 0;
    sum.violations += status.violations.value_or(0) > 0 ? 1 : 0;
    const auto peak = static_cast<double>(status.boundedPeakBytes().value_or(0));
    sum.peak_bytes += peak;
    sum.most_bytes = std::max(sum.most_bytes, peak);
    const bool limited = status.isLimited();
    if (limited) {
      sum.budget_bytes += static_cast<double>(*status.memory.budget_bytes);
      sum.limited_bytes += peak;
    }
    sum.without_budget += limited ? 0 : 1;
    if (status.steps.median_seconds.value_or(-1) > sum.slowest_seconds) {
      sum.slowest_seconds = *status.steps.median_seconds;
      sum.slowest_rank = status.rank;
      sum.slowest_job = status.job;
    }
  }
  return sum;
}

std::string inBytes(double bytes) {
  return shownBytes(bytes < 9e18 ? static_cast<std::int64_t>(bytes) : INT64_MAX - 1);
}

std::string titleOf(const TopModel& model) {
  const bool of_a_job = !model.rows().empty() && !model.rows().front().job.empty();
  return of_a_job ? "job " + forColumns(model.rows().front().job) : model.title;
}

// "2 ranks, 2 training, 1 without an answer"
void addCounts(FrameLine& line, const Summary& sum) {
  line.parts.push_back(
      {fmt::format("{} rank{}, {} training", sum.ranks, sum.ranks == 1 ? "" : "s", sum.training)});
  if (sum.silent > 0) {
    line.parts.push_back({fmt::format(", {} without an answer", sum.silent), TextStyle::kBad});
  }
}

// `slowest`: by what name the slowest rank goes.
void addTotals(FrameLine& line, const Summary& sum, const std::string& slowest) {
  if (sum.budget_bytes > 0) {
    line.parts.push_back({fmt::format("peaks {} of budgets {}; ", inBytes(sum.limited_bytes),
                                      inBytes(sum.budget_bytes))});
  }
  if (sum.without_budget > 0) {
    line.parts.push_back({fmt::format("{} without a budget: {}; ", sum.without_budget,
                                      inBytes(sum.peak_bytes - sum.limited_bytes))});
  }
  if (sum.violations > 0) {
    line.parts.push_back({fmt::format("{} went over; ", sum.violations), TextStyle::kBad});
  }
  if (sum.slowest_seconds >= 0) {
    line.parts.push_back(
        {fmt::format("slowest {} ({})", shownSeconds(sum.slowest_seconds), slowest)});
  }
}

std::string nameOfSlowest(const Summary& sum, bool with_job) {
  const std::string rank = fmt::format("rank {}", sum.slowest_rank);
  return with_job ? rank + " of " + forColumns(sum.slowest_job) : rank;
}

std::vector<FrameLine> head(const TopModel& model, const Summary& sum) {
  const bool several = model.jobs() > 1;
  FrameLine first = plain("ebbtide top  ", TextStyle::kTitle), second;
  first.parts.push_back({several ? fmt::format("{} jobs  ", model.jobs()) : titleOf(model) + "  "});
  addCounts(first, sum);
  addTotals(second, sum, nameOfSlowest(sum, several));
  return {std::move(first), std::move(second)};
}

// "job night  2 ranks, 2 training; slowest 200.0 ms (rank 1)"
FrameLine heading(std::span<const RankRow> section) {
  const Summary sum = summaryOf(section);
  FrameLine line = plain("job " + forColumns(section.front().job) + "  ", TextStyle::kTitle);
  addCounts(line, sum);
  line.parts.push_back({"; "});
  addTotals(line, sum, nameOfSlowest(sum, false));
  return line;
}

FrameLine detail(const TopModel& model) {
  if (model.rows().empty()) return plain("waiting for answers", TextStyle::kFaint);
  const RankRow& status = model.rows()[model.selected()];
  if (!status.problem.empty()) return plain(status.problem, TextStyle::kBad);
  std::string text = fmt::format("rank {}", status.rank);
  if (model.jobs() > 1) text += " of " + forColumns(status.job);
  if (!status.host.empty()) text += " on " + status.host;
  if (!status.device.empty()) text += ", " + status.device;
  text += fmt::format(", step {}; live {}", shownCount(status.steps.count),
                      shownBytes(status.memory.live_bytes));
  if (status.memory.margin_bytes.value_or(0) > 0) {
    text += ", others " + shownBytes(status.memory.margin_bytes);
  }
  if (!status.planner.empty()) {
    text += fmt::format("; plan {}, predicted {}", status.planner,
                        shownBytes(status.memory.predicted_peak_bytes));
  }
  if (status.memory.smallest_feasible_bytes) {
    text += "; smallest budget " + shownBytes(status.memory.smallest_feasible_bytes);
  }
  if (status.violations.value_or(0) > 0) {
    text += fmt::format("; over its budget {} times", *status.violations);
  }
  return plain(std::move(text));
}

// On a screen of a few lines the ranks come first.
bool isRoomy(const ScreenSize& size) {
  return size.lines > kHeadLines + kFootLines;
}

const char* nameOf(TopModel::Sort sort) {
  switch (sort) {
    case TopModel::Sort::kRank:
      return "rank";
    case TopModel::Sort::kMemory:
      return "memory";
    case TopModel::Sort::kStepTime:
      return "step time";
    case TopModel::Sort::kRecompute:
      return "recompute";
    case TopModel::Sort::kViolations:
      return "violations";
  }
  return "";
}

FrameLine foot(const TopModel& model) {
  if (model.prompt()) {
    return {
        .parts = {
            {fmt::format("budget of {} (30GiB, 80%, auto, -50%, 60%peak, none; Escape leaves it): ",
                         model.promptedName()),
             TextStyle::kTitle},
            {*model.prompt() + "_"}}};
  }
  return plain(fmt::format("q quit  s sort: {}  arrows select  b budget  t trend  ? help",
                           nameOf(model.sort())),
               TextStyle::kFaint);
}

std::vector<FrameLine> help() {
  std::vector<FrameLine> lines = {plain("ebbtide top: keys", TextStyle::kTitle)};
  for (const char* text :
       {"q               quit",
        "s               sort by rank, memory, step time, recompute, violations",
        "up, down        select a rank; also k, j", "page up, down   a screen further; Home, End",
        "b               change the budget of the selected rank",
        "t               trend of step times or of peaks", "any key         leaves this help", "",
        "Bars: live bytes, then the peak, then what others hold of a GPU, then what",
        "the budget has left; what is over the budget is red (! without Unicode).",
        "recomp: time spent on recomputation, of all time in steps."}) {
    lines.push_back(plain(text));
  }
  return lines;
}

}  // namespace

std::string FrameLine::text() const {
  std::string text;
  for (const StyledText& part : parts) text += part.text;
  return text;
}

int columnsOf(const std::string& text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80;
  }));
}

int visibleRows(const ScreenSize& size) {
  return std::max(1, size.lines - (isRoomy(size) ? kHeadLines + kFootLines : 1));
}

std::vector<FrameLine> topFrame(const TopModel& model, const ScreenSize& size, bool unicode) {
  std::vector<FrameLine> lines;
  const Summary sum = summaryOf(model.rows());
  if (model.showsHelp()) {
    lines = help();
  } else {
    const Layout layout = layoutFor(size.columns);
    const bool roomy = isRoomy(size);
    if (roomy) {
      lines = head(model, sum);
      lines.push_back(titles(layout, model.trend()));
    }
    const int visible = visibleRows(size);
    const std::size_t first = model.firstShown(visible);
    for (int i = 0; i < visible; ++i) {
      const std::size_t at = first + static_cast<std::size_t>(i);
      if (at >= model.lines().size()) {
        lines.emplace_back();
        continue;
      }
      const TopLine& line = model.lines()[at];
      if (line.is_heading) {
        lines.push_back(heading(model.section(line.row)));
        continue;
      }
      lines.push_back(row(model.rows()[line.row], layout, model.trend(), sum.most_bytes, unicode));
      lines.back().selected = line.row == model.selected();
    }
    if (roomy) {
      lines.push_back(detail(model));
      lines.push_back(plain(model.message, TextStyle::kWarning));
    }
    lines.push_back(foot(model));
  }
  lines.resize(std::min(lines.size(), static_cast<std::size_t>(std::max(size.lines, 0))));
  for (FrameLine& line : lines) line = cutLine(std::move(line), size.columns);
  return lines;
}

}  // namespace ebbtide::cli
