// Exposition: metric families as text.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "ebbtide/metrics/exposition_format.hpp"

namespace ebbtide::metrics {

// Each name once. Gauges whose name ends in _info are infos in OpenMetrics, and units are told from
// names.
std::string expose(const std::vector<prometheus::MetricFamily>& families, Format format);

}  // namespace ebbtide::metrics
