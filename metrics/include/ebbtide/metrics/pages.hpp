// What is built into the library and served as it is.
#pragma once

#include "ebbtide/metrics/routes.hpp"

namespace ebbtide::metrics {

// Adds GET / (the page), GET /openapi.json and GET /healthz.
void addPages(Routes& routes);

}  // namespace ebbtide::metrics
