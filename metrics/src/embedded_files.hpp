// Files of this folder that the build turns into arrays (embed.cmake).
#pragma once

#include <string_view>

namespace ebbtide::metrics {

extern const std::string_view kPage;     // page/index.html
extern const std::string_view kOpenApi;  // openapi.json

}  // namespace ebbtide::metrics
