#include "pipeline_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "svg_text.hpp"

namespace ebbtide::cli {
namespace {

using namespace scheduler;
using Kind = PipelineAction::Kind;

constexpr double kWidth = 1100, kLeft = 64, kRight = 24, kTop = 72, kBottom = 48;
constexpr std::size_t kMostTitles = 2'000;  // actions that say what they are
constexpr double kLeastText = 18;           // pixels of a rectangle with its microbatch in it

constexpr const char* kStyle = R"(
  .page { fill: #ffffff } .text { fill: #24292f } .faint { fill: #57606a }
  .row { fill: #f3f5f8 }
  .f { fill: #7fb3f5 } .b { fill: #f2b36b } .w { fill: #e8d59a } .r { fill: #d1495b }
  .inner { fill: #17202a; font-size: 10px }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .text { fill: #e6edf3 } .faint { fill: #9198a1 }
    .row { fill: #161b22 }
    .f { fill: #3f83d6 } .b { fill: #c98a3c } .w { fill: #a8935a } .r { fill: #e5566b }
  }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
  .title { font-size: 16px; font-weight: 600 }
)";

// Replays are a style of their own, before that of their action.
constexpr std::array<std::string_view, 4> kStyles = {"f", "b", "b", "w"};

class Gantt {
 public:
  Gantt(const PipelineJob& job, const PipelineSimulation& simulation)
      : job_(job), simulation_(simulation) {
    row_ = std::clamp(600.0 / static_cast<double>(job.ranks()), 4.0, 32.0);
    height_ = kTop + kBottom + row_ * static_cast<double>(job.ranks());
    for (const auto& order : job.order) actions_ += order.size();
  }

  std::string draw(const std::string& title) {
    text_ = pictureBegin(kWidth, height_, title, kStyle);
    label(kLeft, 26, title, "text title", "start");
    drawLegend();
    drawRows();
    for (const auto& [style, path] : paths_) {
      if (!path.empty()) text_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", style, path);
    }
    drawAxis();
    return text_ + titles_ + "</svg>\n";
  }

 private:
  double x(Nanoseconds time) const {
    return kLeft + (kWidth - kLeft - kRight) * static_cast<double>(time) /
                       static_cast<double>(std::max<Nanoseconds>(simulation_.makespan_ns, 1));
  }
  double y(std::size_t rank) const { return kTop + row_ * static_cast<double>(rank); }

  void label(double at_x, double at_y, const std::string& text, const char* style,
             const char* anchor) {
    text_ += svgLabel(at_x, at_y, text, style, anchor);
  }

  void drawLegend() {
    double at = kLeft;
    constexpr std::array<std::pair<const char*, const char*>, 4> kEntries = {
        {{"f", "forward"}, {"b", "backward"}, {"w", "weight gradients"}, {"r", "recomputation"}}};
    for (const auto& [style, text] : kEntries) {
      text_ += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"42\" width=\"12\" height=\"12\"/>\n",
                           style, at);
      label(at + 18, 53, text, "faint", "start");
      at += 40 + 7.2 * static_cast<double>(std::string_view(text).size());
    }
  }

  void drawRows() {
    const std::size_t every = row_ < 14 ? static_cast<std::size_t>(14 / row_) + 1 : 1;
    for (std::size_t rank = 0; rank < job_.ranks(); ++rank) {
      text_ += fmt::format(
          "<rect class=\"row\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"/>\n", kLeft,
          y(rank) + 0.5, kWidth - kLeft - kRight, row_ - 1);
      if (rank % every == 0) {
        label(kLeft - 8, y(rank) + row_ / 2 + 4, std::to_string(rank), "faint", "end");
      }
      for (std::size_t i = 0; i < job_.order[rank].size(); ++i) {
        const SimulatedAction& times = simulation_.ranks[rank].actions[i];
        const PipelineAction& action = job_.order[rank][i];
        for (const auto& [begin_ns, end_ns] : replayTimes(times)) {
          addBox("r", rank, begin_ns, end_ns, action, "r");
        }
        addBox(kStyles[static_cast<std::size_t>(action.kind)], rank, times.begin_ns, times.end_ns,
               action, "");
      }
    }
  }

  void addBox(std::string_view style, std::size_t rank, Nanoseconds begin, Nanoseconds end,
              const PipelineAction& action, const char* prefix) {
    const double left = x(begin), width = x(end) - left;
    auto at = std::find_if(paths_.begin(), paths_.end(),
                           [&](const auto& path) { return path.first == style; });
    at->second += fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z", left, y(rank) + 1, width,
                              row_ - 2, width);
    if (actions_ > kMostTitles) return;
    const std::string inner =
        width >= kLeastText && row_ >= 14
            ? fmt::format(
                  "<text class=\"inner\" x=\"{:.1f}\" y=\"{:.1f}\" "
                  "text-anchor=\"middle\">{}{}</text>",
                  left + width / 2, y(rank) + row_ / 2 + 4, prefix, action.microbatch)
            : "";
    titles_ += fmt::format(
        "<g><title>{}{}: {:.6g} to {:.6g} s</title><rect x=\"{:.1f}\" y=\"{:.1f}\" "
        "width=\"{:.1f}\" height=\"{:.1f}\" fill-opacity=\"0\"/>{}</g>\n",
        *prefix != 0 ? "recomputation for " : "", toText(action), static_cast<double>(begin) / 1e9,
        static_cast<double>(end) / 1e9, left, y(rank) + 1, std::max(width, 0.5), row_ - 2, inner);
  }

  void drawAxis() {
    const double seconds = static_cast<double>(simulation_.makespan_ns) / 1e9;
    for (const double tick : ticks(0, seconds)) {
      if (tick > seconds * 1.0001) break;
      label(x(static_cast<Nanoseconds>(tick * 1e9)), height_ - kBottom + 18,
            fmt::format("{:.4g}", tick), "faint", "middle");
    }
    label((kLeft + kWidth - kRight) / 2, height_ - 10, "seconds", "faint", "middle");
    label(14, kTop - 8, "rank", "faint", "start");
  }

  const PipelineJob& job_;
  const PipelineSimulation& simulation_;
  double row_ = 0, height_ = 0;
  std::size_t actions_ = 0;
  std::string text_, titles_;
  std::array<std::pair<std::string_view, std::string>, 4> paths_ = {
      {{"f", ""}, {"b", ""}, {"w", ""}, {"r", ""}}};
};

}  // namespace

std::string toSvg(const PipelineJob& job, const PipelineSimulation& simulation,
                  const std::string& title) {
  return Gantt(job, simulation).draw(title);
}

}  // namespace ebbtide::cli
