#pragma once

#include <string>

#include "time_memory_curve.hpp"

namespace ebbtide::cli {

// A picture of its own: time over the plain step's against memory, both lower bounds drawn in.
std::string toSvg(const TimeMemoryCurve& curve, const std::string& title);

}  // namespace ebbtide::cli
