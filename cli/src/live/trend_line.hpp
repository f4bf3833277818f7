// A row of small bars, the latest value at the right.
#pragma once

#include <string>
#include <vector>

namespace ebbtide::cli {

// `width` columns, filled with spaces at the left. From the least to the largest value shown, but
// never less than a tenth of it, so that noise does not look like mountains.
std::string trendLine(const std::vector<double>& values, int width, bool unicode);

}  // namespace ebbtide::cli
