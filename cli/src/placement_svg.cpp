#include "placement_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "svg_text.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;

constexpr double kWidth = 860, kHeight = 520;
constexpr double kLeft = 72, kRight = 24, kTop = 72, kBottom = 56;
constexpr double kLeastSide = 1.5;  // of a buffer drawn by itself, in pixels
constexpr double kCell = 1;         // of the raster of the others
constexpr std::size_t kMostTitles = 2'000;

constexpr const char* kStyle = R"(
  .page { fill: #ffffff } .text { fill: #24292f } .faint { fill: #57606a }
  .grid { stroke: #d0d7de } .load { stroke: #24292f } .height { stroke: #cf222e }
  .capacity { stroke: #57606a } .few { fill: #a8b3bf }
  .b0 { fill: #9ec9ff } .b1 { fill: #7fb3f5 } .b2 { fill: #b6e3ff } .b3 { fill: #89d0e8 }
  .b0, .b1, .b2, .b3 { stroke: #ffffff; stroke-width: 0.3 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .text { fill: #e6edf3 } .faint { fill: #9198a1 }
    .grid { stroke: #30363d } .load { stroke: #e6edf3 } .height { stroke: #f85149 }
    .capacity { stroke: #9198a1 } .few { fill: #4b5561 }
    .b0 { fill: #1f5fa8 } .b1 { fill: #2a71c4 } .b2 { fill: #18497f } .b3 { fill: #1f6f8b }
    .b0, .b1, .b2, .b3 { stroke: #0d1117 }
  }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
  .title { font-size: 16px; font-weight: 600 }
)";

class Picture {
 public:
  Picture(const PlacementTable& table, const Placement& placement,
          std::optional<Bytes> capacity_bytes, std::string title)
      : table_(table),
        placement_(placement),
        capacity_bytes_(capacity_bytes),
        title_(std::move(title)),
        unit_(byteUnit(placement.height_bytes)) {
    for (const Buffer& buffer : table.problem.buffers) {
      begin_ = std::min(begin_, buffer.lower);
      end_ = std::max(end_, buffer.upper);
    }
    if (begin_ > end_) begin_ = end_ = 0;
    const Bytes most = std::max(placement.height_bytes, capacity_bytes.value_or(0));
    y_ticks_ = ticks(0, static_cast<double>(most) / unit_.bytes);
  }

  std::string draw() {
    text_ = pictureBegin(kWidth, kHeight, title_, kStyle);
    label(kLeft, 26, title_, "text title", "start");
    label(kLeft, 52, legend(), "faint", "start");
    drawAxes();
    drawBuffers();
    drawLoad();
    drawLevel(placement_.height_bytes, "height");
    if (capacity_bytes_) drawLevel(*capacity_bytes_, "capacity");
    return text_ + "</svg>\n";
  }

 private:
  double x(std::int64_t time) const {
    const double whole = std::max(1.0, static_cast<double>(end_ - begin_));
    return kLeft + static_cast<double>(time - begin_) / whole * (kWidth - kLeft - kRight);
  }
  double y(double bytes) const {
    const double part = bytes / unit_.bytes / std::max(y_ticks_.back(), 1e-9);
    return kTop + (kHeight - kTop - kBottom) * (1 - part);
  }
  double y(Bytes bytes) const { return y(static_cast<double>(bytes)); }

  void label(double at_x, double at_y, const std::string& text, const char* style,
             const char* anchor) {
    text_ += svgLabel(at_x, at_y, text, style, anchor);
  }

  std::string legend() const {
    std::string text =
        fmt::format("{} buffers; red: height {} bytes; line: live bytes, LOAD {}",
                    table_.ids.size(), placement_.height_bytes, placement_.load_bytes);
    if (capacity_bytes_) text += fmt::format("; dashes: capacity {}", *capacity_bytes_);
    return text;
  }

  void drawAxes() {
    for (const double tick : y_ticks_) {
      const double at = y(tick * unit_.bytes);
      text_ +=
          fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", kLeft, at, kWidth - kRight);
      label(kLeft - 8, at + 4, fmt::format("{:.4g}", tick), "faint", "end");
    }
    label(kLeft, kHeight - kBottom + 20, std::to_string(begin_), "faint", "start");
    label(kWidth - kRight, kHeight - kBottom + 20, std::to_string(end_), "faint", "end");
    label((kLeft + kWidth - kRight) / 2, kHeight - 12, "time", "faint", "middle");
    text_ += fmt::format(
        "<text class=\"faint\" text-anchor=\"middle\" transform=\"translate(18 {:.1f}) "
        "rotate(-90)\">offset, {}</text>\n",
        (kTop + kHeight - kBottom) / 2, unit_.name);
  }

  void drawBuffers() {
    std::map<std::pair<int, int>, int> raster;  // row, first column -> column after the last
    std::string drawn;
    for (std::size_t i = 0; i < table_.ids.size(); ++i) {
      const Buffer& buffer = table_.problem.buffers[i];
      const double left = x(buffer.lower), width = x(buffer.upper) - left;
      const double top = y(placement_.offsets[i] + buffer.bytes);
      const double height = y(placement_.offsets[i]) - top;
      if (std::min(width, height) < kLeastSide) {
        if (buffer.bytes > 0) addToRaster(raster, left, width, top + height, height);
        continue;
      }
      drawn += fmt::format(
          "<rect class=\"b{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{:.1f}\"",
          i % 4, left, top, width, height);
      drawn += table_.ids.size() > kMostTitles
                   ? "/>\n"
                   : fmt::format("><title>{}: {} bytes at {}</title></rect>\n",
                                 escaped(table_.ids[i]), buffer.bytes, placement_.offsets[i]);
    }
    drawRaster(raster);
    text_ += drawn;
  }

  // Joins what it touches in each row of cells.
  static void addToRaster(std::map<std::pair<int, int>, int>& raster, double left, double width,
                          double bottom, double height) {
    const int first_row = static_cast<int>((kHeight - bottom) / kCell);
    const int last_row = static_cast<int>((kHeight - bottom + height) / kCell);
    for (int row = first_row; row <= last_row; ++row) {
      int from = static_cast<int>(left / kCell), to = static_cast<int>((left + width) / kCell) + 1;
      auto at = raster.upper_bound({row, from});
      if (at != raster.begin() && std::prev(at)->first.first == row &&
          std::prev(at)->second >= from) {
        --at;
      }
      while (at != raster.end() && at->first.first == row && at->first.second <= to) {
        from = std::min(from, at->first.second);
        to = std::max(to, at->second);
        at = raster.erase(at);
      }
      raster[{row, from}] = to;
    }
  }

  void drawRaster(const std::map<std::pair<int, int>, int>& raster) {
    std::string path;
    for (const auto& [cell, end] : raster) {
      path +=
          fmt::format("M{} {}h{}v{}h-{}z", cell.second * kCell, kHeight - (cell.first + 1) * kCell,
                      (end - cell.second) * kCell, kCell, (end - cell.second) * kCell);
    }
    if (!path.empty()) text_ += "<path class=\"few\" d=\"" + path + "\"/>\n";
  }

  // At most one step a pixel: the most of what is alive there.
  void drawLoad() {
    std::map<std::int64_t, Bytes> changes;
    const Bytes unit = table_.problem.alignment_bytes;
    for (const Buffer& buffer : table_.problem.buffers) {
      const Bytes bytes = (buffer.bytes + unit - 1) / unit * unit;
      changes[buffer.lower] += bytes;
      changes[buffer.upper] -= bytes;
    }
    std::map<int, Bytes> most;  // by pixel
    Bytes live = 0;
    for (const auto& [time, change] : changes) {
      const int pixel = static_cast<int>(x(time));
      most.try_emplace(pixel, live);
      live += change;
      most[pixel] = std::max(most[pixel], live);
      most[pixel + 1] = live;
    }
    std::string path = fmt::format("M{} {:.1f}", kLeft, y(Bytes{0}));
    for (const auto& [pixel, bytes] : most) path += fmt::format("H{}V{:.1f}", pixel, y(bytes));
    text_ +=
        fmt::format("<path class=\"load\" fill=\"none\" stroke-width=\"1.2\" d=\"{}\"/>\n", path);
  }

  void drawLevel(Bytes bytes, const char* style) {
    text_ += fmt::format("<path class=\"{}\" stroke-width=\"1.6\"{} d=\"M{} {:.1f}H{}\"/>\n", style,
                         std::string_view(style) == "capacity" ? " stroke-dasharray=\"7 4\"" : "",
                         kLeft, y(bytes), kWidth - kRight);
  }

  const PlacementTable& table_;
  const Placement& placement_;
  const std::optional<Bytes> capacity_bytes_;
  std::string title_;
  ByteUnit unit_;
  std::int64_t begin_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ = std::numeric_limits<std::int64_t>::min();
  std::vector<double> y_ticks_;
  std::string text_;
};

}  // namespace

std::string toSvg(const PlacementTable& table, const Placement& placement,
                  std::optional<Bytes> capacity_bytes, const std::string& title) {
  return Picture(table, placement, capacity_bytes, title).draw();
}

}  // namespace ebbtide::cli
