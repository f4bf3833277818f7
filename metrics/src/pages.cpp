#include "ebbtide/metrics/pages.hpp"

#include "embedded_files.hpp"

namespace ebbtide::metrics {

void addPages(Routes& routes) {
  routes.get("/", [](const Request&) {
    // The page is one file: it loads nothing and speaks to this server alone.
    return Response{.content_type = "text/html; charset=utf-8",
                    .body = std::string(kPage),
                    .headers = {{"Content-Security-Policy",
                                 "default-src 'none'; script-src 'unsafe-inline'; style-src "
                                 "'unsafe-inline'; connect-src 'self'; img-src data:; "
                                 "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                                {"Referrer-Policy", "no-referrer"}}};
  });
  routes.get("/openapi.json",
             [](const Request&) { return Response{.body = std::string(kOpenApi)}; });
  routes.get("/healthz", [](const Request&) {
    return Response{.content_type = "text/plain; charset=utf-8", .body = "ok\n"};
  });
}

}  // namespace ebbtide::metrics
