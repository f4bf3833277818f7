#include "ebbtide/metrics/http_server.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>

#include "connection.hpp"
#include "listener.hpp"
#include "mailbox.hpp"
#include "node_view.hpp"
#include "side.hpp"
#include "unix_socket.hpp"

namespace ebbtide::metrics {
namespace {

namespace asio = boost::asio;
using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kLastWords{100};  // the trainer waits for them

// -1, and a `problem`.
int listenOn(const tcp::endpoint& endpoint, asio::io_context& context, error_code& problem) {
  problem.clear();
  tcp::acceptor acceptor(context);
  acceptor.open(endpoint.protocol(), problem);
  // A program started by the trainer must not keep the port open.
  if (!problem) ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  // A restarted trainer gets its port back at once; a port somebody listens on stays busy.
  if (!problem) acceptor.set_option(tcp::acceptor::reuse_address(true), problem);
  if (!problem) acceptor.bind(endpoint, problem);
  if (!problem) acceptor.listen(asio::socket_base::max_listen_connections, problem);
  return problem ? -1 : acceptor.release(problem);
}

struct TcpSocket {
  int descriptor = -1;
  std::string problem = {};  // one sentence, where it is -1
};

TcpSocket listenOnTcp(asio::io_context& context, const TcpOptions& options) {
  const std::string where = options.address + " port " + std::to_string(options.port);
  error_code problem;
  const asio::ip::address address = asio::ip::make_address(options.address, problem);
  if (problem) {
    return {.problem = "cannot listen on " + where + ": the address is not an IP address"};
  }
  const int last = std::min(options.port + options.ports - 1, int{UINT16_MAX});
  for (int port = options.port; port <= last; ++port) {
    const int descriptor = listenOn({address, static_cast<std::uint16_t>(port)}, context, problem);
    if (descriptor >= 0) return {.descriptor = descriptor};
    if (problem != asio::error::address_in_use) break;
  }
  if (problem != asio::error::address_in_use) {
    return {.problem = "cannot listen on " + where + ": " + problem.message()};
  }
  if (last > options.port) {
    return {.problem = "other programs use " + where + " and all up to " + std::to_string(last)};
  }
  return {.problem = "another program uses " + where};
}

std::uint16_t portOf(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  tcp::endpoint endpoint;
  std::copy_n(reinterpret_cast<const char*>(&address),
              std::min<std::size_t>(size, endpoint.capacity()),
              reinterpret_cast<char*>(endpoint.data()));
  return endpoint.port();
}

}  // namespace

struct HttpServer::Impl {
  // Outlives the connections, which the context destroys.
  struct Open {
    Side side;
    std::optional<Listener> listener;
  };

  // Both return an empty text once it listens, else the problem in one sentence.
  std::string openTcp(const TcpOptions& options, Routes routes);
  std::string openUnix(const std::string& path, Routes routes);
  void startThread();
  void run() noexcept;
  void finish();

  Open tcp;
  Open local;
  asio::io_context context{/*concurrency_hint=*/1};
  const std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>(context);
  std::optional<NodeView> node;
  std::uint16_t port = 0;
  std::unique_ptr<UnixSocket> socket;
  std::string unix_path;
  const pid_t owner = ::getpid();
  std::thread thread;
};

std::string HttpServer::Impl::openTcp(const TcpOptions& options, Routes routes) {
  auto [descriptor, problem] = listenOnTcp(context, options);
  if (descriptor < 0) return std::move(problem);
  port = portOf(descriptor);
  tcp.side.routes = std::move(routes);
  tcp.side.mailbox = mailbox;
  tcp.side.guard.emplace(options.address);
  tcp.side.token = options.token;
  const bool is_v6 = options.address.find(':') != std::string::npos;
  tcp.listener.emplace(context, is_v6 ? AF_INET6 : AF_INET, descriptor, tcp.side);
  tcp.listener->accept();
  return "";
}

std::string HttpServer::Impl::openUnix(const std::string& path, Routes routes) {
  UnixSocketResult listening = UnixSocket::listen(path);
  socket = std::move(listening.socket);
  if (!socket) return std::move(listening.problem);
  unix_path = path;
  local.side.routes = std::move(routes);
  local.side.mailbox = mailbox;
  local.side.of_this_user = true;
  local.listener.emplace(context, AF_UNIX, socket->release(), local.side);
  local.listener->accept();
  return "";
}

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
  mailbox->open();
  for (;;) {
    try {
      context.run();
      break;
    } catch (const std::exception&) {
      // Out of memory in one connection's handler: that connection is gone, the others go on.
    }
  }
  try {
    finish();
  } catch (const std::exception&) {  // they are closed without a word
  }
}

// After the context was stopped: answers that were given are delivered, requests that have arrived
// are answered, who still waits is told that none will come, and what clients take at once is
// written.
void HttpServer::Impl::finish() {
  const auto end = std::chrono::steady_clock::now() + kLastWords;
  context.restart();
  // On a busy machine `end` may pass before this thread runs. Handlers that are queued by now run
  // all the same: answers that were posted, and reads that have completed, with the handlers of
  // their routes. Those wait for nobody, and a connection has one read at a time.
  bool all_delivered = false;
  asio::post(context, [&all_delivered] { all_delivered = true; });
  while (!all_delivered && context.poll_one() > 0) {
  }
  // Requests that wait in the sockets: what is ready to be read is queued behind that.
  while (std::chrono::steady_clock::now() < end && context.poll_one() > 0) {
  }
  const auto writes = [](const Side& side) {
    return !side.questions.empty() || side.unsent_bytes > 0;
  };
  for (Open* open : {&tcp, &local}) {
    Connection::answerAll(open->side, errorResponse(refusals::kRunEnds, "the run ends"));
  }
  while ((writes(tcp.side) || writes(local.side)) && context.run_one_until(end) > 0) {
  }
}

HttpServerResult HttpServer::start(const HttpServerOptions& options, Routes routes) {
  std::string problem;
  const auto failed = [&problem](const std::string& sentence) {
    problem += (problem.empty() ? "" : "; ") + sentence;
  };
  try {
    std::unique_ptr<HttpServer> server(new HttpServer(std::make_unique<Impl>()));
    Impl& impl = *server->impl_;
    std::string why = options.unix_path ? impl.openUnix(*options.unix_path, routes) : "";
    const bool on_unix = options.unix_path && why.empty();
    if (!why.empty()) failed(why);
    if (impl.socket && options.node) {
      impl.socket->removeDeadNeighbours();
      impl.socket->removeDeadJobs();
    }
    if (options.tcp && options.node) {
      NodeOptions node = *options.node;
      if (!on_unix) node.folder.clear();  // refused, or another job's: nobody in it is asked
      impl.node.emplace(impl.context, impl.mailbox, std::move(node), std::move(routes));
      routes = impl.node->routes();
    }
    why = options.tcp ? impl.openTcp(*options.tcp, std::move(routes)) : "";
    const bool on_tcp = options.tcp && why.empty();
    if (!why.empty()) failed(why);
    if (!on_unix && !on_tcp) {
      if (problem.empty()) failed("neither a port nor a socket was asked for");
      return {.problem = std::move(problem)};
    }
    impl.startThread();
    return {.server = std::move(server), .problem = std::move(problem)};
  } catch (const std::exception& error) {
    failed(std::string("cannot start the server: ") + error.what());
    return {.problem = std::move(problem)};
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  if (::getpid() != impl_->owner) {
    // A forked child has no such thread, and shares the parent's epoll instance: tearing the
    // sockets down properly would deregister the parent's. It has none of its own (ForkClosing).
    static_cast<void>(impl_.release());
    return;
  }
  if (impl_->socket) impl_->socket->removeName();
  // Before the descriptors are closed, in case a forked child still holds copies of them.
  for (Impl::Open* open : {&impl_->tcp, &impl_->local}) {
    if (open->listener) ::shutdown(open->listener->descriptor(), SHUT_RDWR);
  }
  impl_->context.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->mailbox->close();
  // While the context is there, which their sockets need.
  impl_->tcp.side.questions.clear();
  impl_->local.side.questions.clear();
  impl_->tcp.listener.reset();
  impl_->local.listener.reset();
}

std::uint16_t HttpServer::port() const noexcept {
  return impl_->port;
}

const std::string& HttpServer::unixPath() const noexcept {
  return impl_->unix_path;
}

}  // namespace ebbtide::metrics
