#include "curve_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "svg_text.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

constexpr double kWidth = 860, kHeight = 420;
constexpr double kLeft = 72, kRight = 24, kTop = 72, kBottom = 56;

constexpr const char* kStyle = R"(
  .page { fill: #ffffff } .text { fill: #24292f } .faint { fill: #57606a }
  .grid { stroke: #d0d7de } .curve { stroke: #0969da } .dot { fill: #0969da }
  .bound { stroke: #cf222e } .out { fill: #cf222e }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .text { fill: #e6edf3 } .faint { fill: #9198a1 }
    .grid { stroke: #30363d } .curve { stroke: #4493f8 } .dot { fill: #4493f8 }
    .bound { stroke: #f85149 } .out { fill: #f85149 }
  }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
  .title { font-size: 16px; font-weight: 600 }
)";

class Picture {
 public:
  Picture(const TimeMemoryCurve& curve, std::string title)
      : curve_(curve), title_(std::move(title)), unit_(byteUnit(curve.plain_peak_bytes)) {
    double slowest = 1;
    for (const CurvePoint& point : curve.points) {
      slowest = std::max(slowest, ratio(point.duration_ns));
    }
    x_ticks_ = ticks(0, memory(curve.plain_peak_bytes));
    y_ticks_ = ticks(1, std::max(slowest, 1.02));
  }

  std::string draw() {
    text_ = pictureBegin(kWidth, kHeight, title_, kStyle);
    label(kLeft, 26, title_, "text title", "start");
    drawAxes();
    drawBounds();
    drawCurve();
    return text_ + "</svg>\n";
  }

 private:
  double memory(Bytes bytes) const { return static_cast<double>(bytes) / unit_.bytes; }
  double ratio(Nanoseconds ns) const {
    return curve_.plain_ns > 0 ? static_cast<double>(ns) / static_cast<double>(curve_.plain_ns) : 1;
  }
  double x(double memory) const {
    return kLeft + memory / std::max(x_ticks_.back(), 1e-9) * (kWidth - kLeft - kRight);
  }
  double y(double ratio) const {
    const double height = kHeight - kTop - kBottom;
    const double part = (ratio - y_ticks_.front()) / (y_ticks_.back() - y_ticks_.front());
    return kTop + height * (1 - std::min(part, 1.0));
  }

  void label(double at_x, double at_y, const std::string& text, const char* style,
             const char* anchor) {
    text_ += svgLabel(at_x, at_y, text, style, anchor);
  }

  void drawAxes() {
    for (const double tick : y_ticks_) {
      text_ += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", kLeft, y(tick),
                           kWidth - kRight);
      label(kLeft - 8, y(tick) + 4, fmt::format("{:.4g}", tick), "faint", "end");
    }
    for (const double tick : x_ticks_) {
      label(x(tick), kHeight - kBottom + 20, fmt::format("{:.6g}", tick), "faint", "middle");
    }
    label((kLeft + kWidth - kRight) / 2, kHeight - 12, fmt::format("peak memory, {}", unit_.name),
          "faint", "middle");
    text_ += fmt::format(
        "<text class=\"faint\" text-anchor=\"middle\" transform=\"translate(18 {:.1f}) "
        "rotate(-90)\">time / time of the plain step</text>\n",
        (kTop + kHeight - kBottom) / 2);
  }

  void drawBounds() {
    const double least = x(memory(curve_.lower_bound_bytes));
    text_ += fmt::format(
        "<path class=\"bound\" stroke-width=\"1.6\" stroke-dasharray=\"7 4\" d=\"M{:.1f} "
        "{:.1f}V{:.1f}\"/>\n",
        least, kTop, kHeight - kBottom);
    label(kLeft, 52, "red: no schedule can be left of or under these lines", "out", "start");
    // Between two budgets holds what holds at the larger one.
    std::string path;
    for (const CurvePoint& point : curve_.points) {
      const double at_x = x(memory(point.budget_bytes)), at_y = y(ratio(point.least_ns));
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", at_x, at_y)
                           : fmt::format("V{:.1f}H{:.1f}", at_y, at_x);
    }
    text_ +=
        fmt::format("<path class=\"bound\" fill=\"none\" stroke-width=\"1.6\" d=\"{}\"/>\n", path);
  }

  // A staircase: a schedule serves every budget from its peak on. So does the smallest peak found
  // where no schedule fits.
  void drawCurve() {
    std::string path, dots;
    for (const CurvePoint& point : curve_.points) {
      const double at_x = x(memory(point.peak_bytes)), at_y = y(ratio(point.duration_ns));
      path += path.empty() ? fmt::format("M{:.1f} {:.1f}", at_x, at_y)
                           : fmt::format("H{:.1f}V{:.1f}", at_x, at_y);
      dots +=
          fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", at_x, at_y);
    }
    text_ += fmt::format("<path class=\"curve\" fill=\"none\" stroke-width=\"1.8\" d=\"{}H{}\"/>\n",
                         path, kWidth - kRight);
    text_ += dots;
  }

  const TimeMemoryCurve& curve_;
  std::string title_;
  ByteUnit unit_;
  std::vector<double> x_ticks_, y_ticks_;
  std::string text_;
};

}  // namespace

std::string toSvg(const TimeMemoryCurve& curve, const std::string& title) {
  return Picture(curve, title).draw();
}

}  // namespace ebbtide::cli
