// Boundary to Boost.Asio and Boost.Beast; slow to compile, so nothing else is in this file.
#include "ebbtide/metrics/http_server.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "request_guard.hpp"

namespace ebbtide::metrics {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr int kMaxConnections = 64;
constexpr std::uint32_t kHeaderBytes = 8 * 1024;
constexpr std::chrono::seconds kTimeout{10};  // for a whole request, and for a whole response
constexpr std::chrono::seconds kDrainTimeout{1};
constexpr std::size_t kDrainBytes = std::size_t{64} * 1024;
constexpr std::chrono::milliseconds kAcceptPause{100};

// A program started by the trainer must not keep the port open.
void closeOnExec(int descriptor) {
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

// What all connections share. Used by the server's thread only.
struct Site {
  std::function<std::string()> render_metrics;
  RequestGuard guard;
  int connections = 0;
};

using Response = http::response<http::string_body>;

Response reply(http::status status, std::string body) {
  Response response(status, 11);
  response.set(http::field::content_type, "text/plain; charset=utf-8");
  response.set(http::field::cache_control, "no-store");
  response.body() = std::move(body);
  return response;
}

Response answer(const Site& site, const http::request<http::empty_body>& request) {
  const auto host = request.find(http::field::host);
  if (host == request.end() && request.version() >= 11) {
    return reply(http::status::bad_request, "the Host header is missing\n");
  }
  const std::string_view host_value = host == request.end() ? "" : host->value();
  if (host != request.end() && !site.guard.acceptsHost(host_value)) {
    return reply(http::status::misdirected_request, "this server is not that host\n");
  }
  const auto origin = request.find(http::field::origin);
  if (origin != request.end() && !RequestGuard::acceptsOrigin(origin->value(), host_value)) {
    return reply(http::status::forbidden, "requests from other sites are refused\n");
  }
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    Response response = reply(http::status::method_not_allowed, "this server is read-only\n");
    response.set(http::field::allow, "GET, HEAD");
    return response;
  }
  const std::string_view target = request.target();
  const std::string_view path = target.substr(0, target.find('?'));
  if (path == "/healthz") return reply(http::status::ok, "ok\n");
  if (path != "/metrics") return reply(http::status::not_found, "see /metrics and /healthz\n");
  try {
    Response response = reply(http::status::ok, site.render_metrics());
    response.set(http::field::content_type, "text/plain; version=0.0.4; charset=utf-8");
    return response;
  } catch (const std::exception& problem) {
    return reply(http::status::internal_server_error, std::string(problem.what()) + "\n");
  }
}

// One connection; lives as long as an operation on it is pending.
//
//   read header ─► answer ─► write ─┬─ keep-alive ─► read header
//                                   └─ shut down sending ─► drain ─► close
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Site& site) : stream_(std::move(socket)), site_(site) {
    ++site_.connections;
  }

  // shutdown() reaches the peer even while a forked child holds a copy of the descriptor.
  ~Connection() {
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    --site_.connections;
  }

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kHeaderBytes);
    stream_.expires_after(kTimeout);
    http::async_read_header(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](error_code error, std::size_t) { self->onRead(error); });
  }

 private:
  void onRead(error_code error) {
    const bool too_large =
        error == http::error::header_limit || error == http::error::buffer_overflow;
    if (too_large) {
      response_ = reply(http::status::request_header_fields_too_large, "the header is too large\n");
      response_.keep_alive(false);
    } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
               error != http::error::end_of_stream && error != http::error::partial_message) {
      response_ = reply(http::status::bad_request, "this is not HTTP\n");
      response_.keep_alive(false);
    } else if (error) {
      return;  // closed, reset or timed out
    } else {
      const auto& request = parser_->get();
      response_ = answer(site_, request);
      response_.version(request.version());
      // A body would have to be read before the next request: not worth it for a read-only server.
      response_.keep_alive(request.keep_alive() && parser_->is_done());
    }
    write(!error && parser_->get().method() == http::verb::head);
  }

  void write(bool head_only) {
    response_.prepare_payload();
    if (head_only) response_.body().clear();  // Content-Length stays
    stream_.expires_after(kTimeout);
    http::async_write(
        stream_, response_,
        [self = shared_from_this()](error_code error, std::size_t) { self->onWritten(error); });
  }

  void onWritten(error_code error) {
    if (error) return;
    if (response_.keep_alive()) {
      read();
      return;
    }
    stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    stream_.expires_after(kDrainTimeout);
    drain();
  }

  // Closing with unread bytes would reset the connection, and the client might lose the response.
  void drain() {
    stream_.async_read_some(asio::buffer(drained_),
                            [self = shared_from_this()](error_code error, std::size_t bytes) {
                              self->drained_bytes_ += bytes;
                              if (!error && self->drained_bytes_ < kDrainBytes) self->drain();
                            });
  }

  beast::tcp_stream stream_;
  Site& site_;
  beast::flat_buffer buffer_{std::size_t{2} * kHeaderBytes};
  std::optional<http::request_parser<http::empty_body>> parser_;
  Response response_;
  std::array<char, 4096> drained_{};
  std::size_t drained_bytes_ = 0;
};

class Listener {
 public:
  Listener(asio::io_context& context, Site& site)
      : acceptor_(context), pause_(context), site_(site) {}

  void listen(const tcp::endpoint& endpoint, error_code& error) {
    acceptor_.open(endpoint.protocol(), error);
    if (error) return;
    closeOnExec(acceptor_.native_handle());
    // A restarted trainer gets its port back at once; a port somebody listens on stays busy.
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  }

  void accept() {
    acceptor_.async_accept(
        [this](error_code error, tcp::socket socket) { onAccept(error, std::move(socket)); });
  }

  std::uint16_t port(error_code& error) const { return acceptor_.local_endpoint(error).port(); }
  int descriptor() { return acceptor_.native_handle(); }

 private:
  void onAccept(error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {  // out of descriptors, usually: try again later instead of spinning
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](error_code aborted) {
        if (!aborted) accept();
      });
      return;
    }
    closeOnExec(socket.native_handle());
    accept();  // first, so that a connection that cannot be made does not end the listening
    if (site_.connections < kMaxConnections) {
      std::make_shared<Connection>(std::move(socket), site_)->read();
    } else {
      socket.shutdown(tcp::socket::shutdown_both, error);
    }
  }

  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  Site& site_;
};

}  // namespace

struct HttpServer::Impl {
  explicit Impl(std::function<std::string()> render, const std::string& address)
      : site{std::move(render), RequestGuard(address)} {}

  void startThread();
  void run() noexcept;

  Site site;  // outlives the connections, which the context destroys
  asio::io_context context{/*concurrency_hint=*/1};
  Listener listener{context, site};
  std::uint16_t port = 0;
  const pid_t owner = ::getpid();
  std::thread thread;
};

// Signals are the main thread's: the new thread inherits a mask that blocks them all.
void HttpServer::Impl::startThread() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread = std::thread([this] { run(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread.native_handle(), "ebbtide-http");
}

void HttpServer::Impl::run() noexcept {
  for (;;) {
    try {
      context.run();
      return;
    } catch (const std::exception&) {
      // Out of memory in one connection's handler: that connection is gone, the others go on.
    }
  }
}

std::unique_ptr<HttpServer> HttpServer::start(const HttpServerOptions& options,
                                              std::function<std::string()> render_metrics,
                                              std::string& error) {
  const std::string where = options.address + " port " + std::to_string(options.port);
  try {
    error_code problem;
    const asio::ip::address address = asio::ip::make_address(options.address, problem);
    if (problem) {
      error = "cannot listen on " + where + ": the address is not an IP address";
      return nullptr;
    }
    auto impl = std::make_unique<Impl>(std::move(render_metrics), options.address);
    impl->listener.listen({address, options.port}, problem);
    if (!problem) impl->port = impl->listener.port(problem);
    if (problem) {
      error = "cannot listen on " + where + ": " + problem.message();
      return nullptr;
    }
    impl->listener.accept();
    std::unique_ptr<HttpServer> server(new HttpServer(std::move(impl)));
    server->impl_->startThread();
    return server;
  } catch (const std::exception& problem) {
    error = "cannot listen on " + where + ": " + problem.what();
    return nullptr;
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  if (::getpid() != impl_->owner) {
    // A forked child has no such thread, and shares the parent's epoll instance: tearing the
    // sockets down properly would deregister the parent's. Only the copy of the port is closed.
    ::close(impl_->listener.descriptor());
    static_cast<void>(impl_.release());
    return;
  }
  // Before the descriptors are closed, in case a forked child still holds copies of them.
  ::shutdown(impl_->listener.descriptor(), SHUT_RDWR);
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

std::uint16_t HttpServer::port() const noexcept {
  return impl_->port;
}

}  // namespace ebbtide::metrics
