#include "report/timeline_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "shown_values.hpp"
#include "svg_text.hpp"

namespace ebbtide::cli {
namespace {

constexpr double kWidth = 860, kHeight = 240;
constexpr double kLeft = 64, kRight = 16, kTop = 14, kBottom = 34;
constexpr int kColumns = 600;  // of the drawing; what falls into one is its maximum

class Drawing {
 public:
  explicit Drawing(const RunReport& report) : report_(report) {
    begin_ = report.timeline.live.front().first;
    end_ = std::max(report.timeline.live.back().first, begin_ + 1e-9);
    double most = 0;
    for (const auto& [seconds, bytes] : report.timeline.live) most = std::max(most, bytes);
    for (const auto& [seconds, bytes] : report.timeline.mapped) most = std::max(most, bytes);
    most = std::max(most, static_cast<double>(report.budget.bytes.value_or(0)));
    most = std::max(most, static_cast<double>(report.peaks.predicted_bytes.value_or(0)));
    most = std::clamp(most, 1.0, 9e18);
    unit_ = byteUnit(static_cast<scheduler::Bytes>(most));
    y_ticks_ = ticks(0, most / unit_.bytes);
  }

  std::string draw() {
    text_ = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}: live and mapped bytes "
        "along one step\">\n",
        kWidth, kHeight, escaped(report_.name()));
    axes();
    area();
    mapped();
    line(report_.budget.bytes, "budget", "budget");
    line(report_.peaks.predicted_bytes, "predicted", "predicted peak");
    return text_ + "</svg>\n";
  }

 private:
  double x(double seconds) const {
    return kLeft + (seconds - begin_) / (end_ - begin_) * (kWidth - kLeft - kRight);
  }
  double y(double bytes) const {
    const double part = bytes / unit_.bytes / y_ticks_.back();
    return kTop + (kHeight - kTop - kBottom) * (1 - std::clamp(part, 0.0, 1.0));
  }

  void label(double at_x, double at_y, const std::string& text, const char* anchor) {
    text_ += fmt::format(
        "<text class=\"label\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", at_x,
        at_y, anchor, escaped(text));
  }

  void axes() {
    for (const double tick : y_ticks_) {
      const double at = y(tick * unit_.bytes);
      text_ +=
          fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", kLeft, at, kWidth - kRight);
      label(kLeft - 6, at + 4, fmt::format("{:.4g}", tick), "end");
    }
    label(kLeft, kHeight - 8, "live memory, " + std::string(unit_.name), "start");
    label(kWidth - kRight, kHeight - 8, "time in one step, " + shownSeconds(end_ - begin_), "end");
  }

  // Of a staircase, where a size holds until the next one: the most in each column.
  std::vector<double> columns(const std::vector<std::pair<double, double>>& timeline) const {
    std::vector<double> most(kColumns, 0);
    const auto columnOf = [&](double seconds) {
      const double part = (seconds - begin_) / (end_ - begin_);
      return std::clamp(static_cast<int>(part * kColumns), 0, kColumns - 1);
    };
    int before = 0;
    double held = 0;
    for (const auto& [seconds, bytes] : timeline) {
      const int column = columnOf(seconds);
      for (int i = before; i <= column; ++i) most[i] = std::max(most[i], held);
      most[column] = std::max(most[column], bytes);
      before = column, held = bytes;
    }
    return most;
  }

  // From the left edge on.
  std::string path(const std::vector<double>& columns) const {
    const double step = (kWidth - kLeft - kRight) / kColumns;
    std::string path;
    for (int i = 0; i < kColumns; ++i)
      path += fmt::format("V{:.1f}H{:.1f}", y(columns[i]), kLeft + (i + 1) * step);
    return path;
  }

  void area() {
    text_ += fmt::format("<path class=\"area\" d=\"M{} {:.1f}{}V{:.1f}Z\"/>\n", kLeft, y(0),
                         path(columns(report_.timeline.live)), y(0));
  }

  void mapped() {
    if (report_.timeline.mapped.empty()) return;
    const std::vector<double> most = columns(report_.timeline.mapped);
    text_ += fmt::format("<path class=\"mapped\" d=\"M{} {:.1f}{}\"><title>mapped</title></path>\n",
                         kLeft, y(most.front()), path(most));
    label(kLeft + 6, y(most.front()) - 4, "mapped", "start");
  }

  void line(std::optional<std::int64_t> bytes, const char* style, const char* name) {
    if (!bytes || *bytes <= 0 || *bytes == INT64_MAX) return;
    const double at = y(static_cast<double>(*bytes));
    text_ += fmt::format("<path class=\"{}\" d=\"M{} {:.1f}H{}\"><title>{} {}</title></path>\n",
                         style, kLeft, at, kWidth - kRight, name, shownBytes(bytes));
    const bool above = std::string_view(style) == "budget";
    label(above ? kWidth - kRight : kLeft + 6, at - 4, name + (" " + shownBytes(bytes)),
          above ? "end" : "start");
  }

  const RunReport& report_;
  double begin_ = 0, end_ = 0;
  ByteUnit unit_{};
  std::vector<double> y_ticks_;
  std::string text_;
};

}  // namespace

std::string timelineSvg(const RunReport& report) {
  return report.timeline.live.size() < 2 ? "" : Drawing(report).draw();
}

}  // namespace ebbtide::cli
