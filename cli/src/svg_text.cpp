#include "svg_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace ebbtide::cli {

ByteUnit byteUnit(scheduler::Bytes most) {
  constexpr std::array<ByteUnit, 4> kUnits = {
      {{1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}, {1.0, "bytes"}}};
  for (const ByteUnit& unit : kUnits) {
    if (static_cast<double>(most) >= 4 * unit.bytes) return unit;
  }
  return kUnits.back();
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    }
  }
  return result;
}

std::string svgLabel(double x, double y, const std::string& text, const char* style,
                     const char* anchor) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                     style, x, y, anchor, escaped(text));
}

std::string pictureBegin(double width, double height, const std::string& title,
                         std::string_view style) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">\n<style>{}</style>\n<rect class=\"page\" width=\"{}\" height=\"{}\" "
      "rx=\"6\"/>\n",
      width, height, escaped(title), style, width, height);
}

std::vector<double> ticks(double least, double most) {
  const double rough = std::max(most - least, 1e-9) / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.5, 2.0, 1.0}) {
    if (factor * power >= rough) step = factor * power;
  }
  std::vector<double> result;
  const long first = std::lround(std::floor(least / step + 1e-9));
  const long last = std::lround(std::ceil(most / step - 1e-9));
  for (long i = first; i <= last; ++i) result.push_back(static_cast<double>(i) * step);
  return result;
}

}  // namespace ebbtide::cli
