// What every picture needs: text that XML accepts, units and round numbers for axes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ebbtide/scheduler/units.hpp"

namespace ebbtide::cli {

struct ByteUnit {
  double bytes;
  const char* name;  // "MiB"
};

// The largest unit that fits into `most` at least four times; else bytes.
ByteUnit byteUnit(scheduler::Bytes most);

std::string escaped(const std::string& text);

// A text element; `anchor`: "start", "middle" or "end" of the text is at that place.
std::string svgLabel(double x, double y, const std::string& text, const char* style,
                     const char* anchor);

// The picture's element, its style and its page; the caller adds shapes and "</svg>".
std::string pictureBegin(double width, double height, const std::string& title,
                         std::string_view style);

// Round numbers from the last one at or below `least` to the first one at or above `most`.
std::vector<double> ticks(double least, double most);

}  // namespace ebbtide::cli
