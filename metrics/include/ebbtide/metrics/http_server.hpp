// HttpServer: one Boost.Beast server on one thread of its own, on a TCP port, a Unix socket or
// both.
//
// Over TCP it is read-only unless a token is given; over the Unix socket, which other users cannot
// open, everything may be asked. With `node` the TCP side answers for all ranks of the machine, the
// Unix side always for this one.
//
// A slow, broken or missing client never holds up the training threads. Limits: 10 s for a request
// or a response, 8 KiB of header, 64 KiB of body, 64 connections a side. The connection that has
// been idle longest makes room for a new one. An answer that takes over 60 s becomes a 504. While 8
// changes or 32 reads of a side wait for an answer, further ones are refused (429). The TCP side
// refuses requests whose Host is not this machine (421), and those whose Origin is another site
// (403).
//
// fork(): the parent goes on serving. The child has no such thread, and keeps neither port nor
// socket from whoever comes after the parent: its copies are closed at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ebbtide/metrics/bearer_token.hpp"
#include "ebbtide/metrics/node_options.hpp"
#include "ebbtide/metrics/routes.hpp"

namespace ebbtide::metrics {

struct TcpOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0: the system chooses
  int ports = 1;           // that are tried, upwards, as long as somebody listens on them
  std::optional<BearerToken> token = {};  // who sends it may change things
};

struct HttpServerOptions {
  std::optional<TcpOptions> tcp = {};
  // Its folder and the one above are made if they are missing (0700), and must be this user's
  // alone. A socket that nobody listens on is replaced, one that somebody listens on is not.
  std::optional<std::string> unix_path = {};
  // TCP serves the ranks of this machine, not this one alone. Without its own Unix socket it asks
  // none of the others: their folder may be a stranger's.
  std::optional<NodeOptions> node = {};
};

struct HttpServerResult;

class HttpServer {
 public:
  // Handlers of `routes` run on the server's thread, one call at a time, and must not block: the
  // destructor waits for them. If TCP or the Unix socket fails, it serves on the other.
  static HttpServerResult start(const HttpServerOptions& options, Routes routes);
  // Stops within 1 s, joins its thread, removes the Unix socket if it is still its. Who waits for
  // an answer gets a 503; clients have 100 ms to take what is theirs.
  ~HttpServer();

  std::uint16_t port() const noexcept;  // 0: not on TCP
  // Empty: not on a Unix socket.
  const std::string& unixPath() const noexcept;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct HttpServerResult {
  std::unique_ptr<HttpServer> server = nullptr;  // nullptr: nothing could be opened
  std::string problem = {};                      // one sentence for each side that failed
};

}  // namespace ebbtide::metrics
