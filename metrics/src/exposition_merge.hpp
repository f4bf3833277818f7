// Joins what several ranks say to a scraper into one exposition.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebbtide::metrics {

// Texts of the Prometheus format 0.0.4, or of OpenMetrics 1.0 if `open_metrics`. Each family stands
// once, with what the first text says of it, then its samples in the order of the texts; of samples
// with the same name and labels the first is kept. Lines that are no samples are left out.
// OpenMetrics ends with its # EOF. Takes any bytes.
std::string mergeExpositions(const std::vector<std::string_view>& texts, bool open_metrics);

}  // namespace ebbtide::metrics
