#include "live/trend_line.hpp"

#include <algorithm>
#include <array>

namespace ebbtide::cli {

std::string trendLine(const std::vector<double>& values, int width, bool unicode) {
  constexpr std::array<const char*, 8> kBars = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<const char*, 8> kLetters = {"_", "_", ".", "-", "-", "=", "=", "#"};
  const auto room = static_cast<std::size_t>(std::max(width, 0));
  const std::size_t count = std::min(room, values.size());
  std::string text(room - count, ' ');
  if (count == 0) return text;
  const auto first = values.end() - static_cast<std::ptrdiff_t>(count);
  const auto [least, most] = std::minmax_element(first, values.end());
  const double range = std::max(*most - *least, 0.1 * *most);
  for (auto value = first; value != values.end(); ++value) {
    const double share = range > 0 ? (*value - *least) / range : 0;
    const auto level = static_cast<std::size_t>(std::clamp(share * 8, 0.0, 7.0));
    text += unicode ? kBars[level] : kLetters[level];
  }
  return text;
}

}  // namespace ebbtide::cli
