// HttpServer: one Boost.Beast server on one thread of its own: GET /metrics, GET /healthz.
//
// Read-only. A slow, broken or missing client never reaches the training threads: 10 s for a
// request or a response, 8 KiB of header, 64 connections. A busy port is reported by the factory,
// never thrown. Requests whose Host is not this machine (421) or whose Origin is another site (403)
// are refused.
//
// fork(): the parent goes on serving. In the child, which has no such thread, the destructor only
// closes the child's copy of the port.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace ebbtide::metrics {

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: the system chooses
};

class HttpServer {
 public:
  // render_metrics runs on the server's thread, one call at a time, and must not block: the
  // destructor waits for it. What it throws becomes a 500. nullptr when the address cannot be
  // bound; then `error` says why in one sentence.
  static std::unique_ptr<HttpServer> start(const HttpServerOptions& options,
                                           std::function<std::string()> render_metrics,
                                           std::string& error);
  ~HttpServer();  // stops within 1 s, joins its thread

  std::uint16_t port() const noexcept;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ebbtide::metrics
