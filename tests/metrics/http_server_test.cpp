#include "ebbtide/metrics/http_server.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ebbtide/metrics/pages.hpp"
#include "ebbtide/metrics/rank_metrics.hpp"
#include "raw_client.hpp"

namespace ebbtide::metrics::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() : server_(start({})) {}

  static Routes routes() {
    Routes routes;
    addPages(routes);
    routes.get("/metrics", [](const Request&) {
      return Response{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = "up 1\n"};
    });
    return routes;
  }

  static std::unique_ptr<HttpServer> start(const TcpOptions& tcp) {
    auto [server, problem] = HttpServer::start({.tcp = tcp}, routes());
    EXPECT_NE(server, nullptr) << problem;
    return std::move(server);
  }

  std::uint16_t port() const { return server_->port(); }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ServesMetricsAsPrometheusText) {
  const std::string response = fetch(port(), "GET /metrics");
  EXPECT_EQ(statusOf(response), "HTTP/1.1 200 OK");
  EXPECT_NE(response.find("\r\nContent-Type: text/plain; version=0.0.4"), std::string::npos);
  EXPECT_NE(response.find("\r\nContent-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(bodyOf(response), "up 1\n");
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics?name=up")), "up 1\n");
}

TEST_F(HttpServerTest, HeadHasTheHeaderOnly) {
  const std::string response = fetch(port(), "HEAD /metrics");
  EXPECT_EQ(statusOf(response), "HTTP/1.1 200 OK");
  EXPECT_NE(response.find("\r\nContent-Length: 5\r\n"), std::string::npos);
  EXPECT_EQ(bodyOf(response), "");
}

TEST_F(HttpServerTest, AnswersHealthAndRefusesTheRest) {
  EXPECT_EQ(bodyOf(fetch(port(), "GET /healthz")), "ok\n");
  EXPECT_EQ(statusOf(fetch(port(), "GET /nothing")), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(statusOf(fetch(port(), "GET /metrics/")), "HTTP/1.1 404 Not Found");
  for (const char* request : {"POST /metrics", "DELETE /healthz", "OPTIONS /metrics"}) {
    const std::string response = fetch(port(), request);
    EXPECT_EQ(statusOf(response), "HTTP/1.1 405 Method Not Allowed") << request;
    EXPECT_NE(response.find("\r\nAllow: GET, HEAD\r\n"), std::string::npos) << request;
  }
  RawClient client(port());
  client.send("\x16\x03\x01 this is TLS or worse\r\n\r\n");
  EXPECT_EQ(statusOf(client.readAll()), "HTTP/1.1 400 Bad Request");
}

TEST_F(HttpServerTest, KeepsAConnectionForTheNextScrape) {
  RawClient client(port());
  for (int scrape = 0; scrape < 3; ++scrape) {
    client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(bodyOf(client.readResponse()), "up 1\n");
  }
  // Two requests in one packet are answered in order.
  client.send(
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(bodyOf(client.readResponse()), "ok\n");
  EXPECT_EQ(bodyOf(client.readResponse()), "up 1\n");
  // HTTP/1.0 needs no Host and closes.
  client.send("GET /healthz HTTP/1.0\r\n\r\n");
  EXPECT_EQ(bodyOf(client.readAll()), "ok\n");
}

TEST_F(HttpServerTest, ABodyIsAnsweredAndNotTakenForTheNextRequest) {
  RawClient client(port());
  const std::string body(20'000, 'x');
  client.send("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n" + body);
  EXPECT_EQ(statusOf(client.readResponse()), "HTTP/1.1 405 Method Not Allowed");
  client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(bodyOf(client.readResponse()), "ok\n");
}

TEST_F(HttpServerTest, ChecksTheHost) {
  for (const char* host :
       {"localhost", "LOCALHOST:9400", "127.0.0.1", "127.0.0.1:80", "127.8.9.1", "[::1]:9400"}) {
    const std::string headers = "Host: " + std::string(host) + "\r\n";
    EXPECT_EQ(statusOf(fetch(port(), "GET /healthz", headers)), "HTTP/1.1 200 OK") << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "10.0.0.1", "", "[", "[]",
                           ":80", "127.0.0.1.evil.example"}) {
    const std::string headers = "Host: " + std::string(host) + "\r\n";
    EXPECT_EQ(statusOf(fetch(port(), "GET /metrics", headers)), "HTTP/1.1 421 Misdirected Request")
        << host;
  }
  EXPECT_EQ(statusOf(fetch(port(), "GET /metrics", "")), "HTTP/1.1 400 Bad Request");
}

TEST_F(HttpServerTest, AcceptsAnyAddressButNoStrangersNameWhenBoundToAll) {
  const auto server = start({.address = "0.0.0.0"});
  const auto status = [&](const char* host) {
    return statusOf(fetch(server->port(), "GET /healthz", "Host: " + std::string(host) + "\r\n"));
  };
  EXPECT_EQ(status("10.1.2.3:9400"), "HTTP/1.1 200 OK");
  EXPECT_EQ(status("evil.example"), "HTTP/1.1 421 Misdirected Request");
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  EXPECT_EQ(status(name), "HTTP/1.1 200 OK");
}

TEST_F(HttpServerTest, RefusesTheOriginOfAnotherSite) {
  const auto status = [&](const char* origin) {
    return statusOf(fetch(port(), "GET /metrics",
                          "Host: localhost:9400\r\nOrigin: " + std::string(origin) + "\r\n"));
  };
  EXPECT_EQ(status("http://localhost:9400"), "HTTP/1.1 200 OK");
  for (const char* origin : {"http://evil.example", "http://localhost:8080", "null", ""}) {
    EXPECT_EQ(status(origin), "HTTP/1.1 403 Forbidden") << origin;
  }
}

TEST_F(HttpServerTest, RefusesAHeaderAboveEightKibibytes) {
  const std::string fits = "Host: localhost\r\nX-Filler: " + std::string(7000, 'x') + "\r\n";
  EXPECT_EQ(statusOf(fetch(port(), "GET /healthz", fits)), "HTTP/1.1 200 OK");
  for (const std::size_t bytes : {9'000, 100'000}) {
    RawClient client(port());
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Filler: ");
    client.send(std::string(bytes, 'x'));
    const std::string status = statusOf(client.readAll());
    EXPECT_EQ(status, "HTTP/1.1 431 Request Header Fields Too Large") << bytes;
  }
}

TEST_F(HttpServerTest, AHalfOpenClientBlocksNobody) {
  RawClient silent(port());
  RawClient halfway(port());
  halfway.send("GET /metrics HTTP/1.1\r\nHo");
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics")), "up 1\n");
  // Not closed yet: so the answer did not wait for that.
  halfway.send("st: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(bodyOf(halfway.readAll()), "up 1\n");
}

TEST_F(HttpServerTest, ASlowClientIsClosedAfterTenSeconds) {
  const auto before = steady_clock::now();
  RawClient slow(port());
  const std::string request =
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX-Filler: xxxxxxxxxxxxxx";
  std::size_t sent = 0;
  // A byte now and then does not prolong it.
  while (sent < request.size() && !slow.closesWithin(milliseconds(400))) {
    slow.send(request.substr(sent++, 1));
  }
  EXPECT_GT(steady_clock::now() - before, seconds(9));
  // Its 64 bytes at 400 ms each take over 25 s: it was closed before it had sent them all.
  EXPECT_LT(sent, request.size());
}

TEST_F(HttpServerTest, ServesSixtyFourConnectionsAtOnce) {
  std::vector<RawClient> clients;
  clients.reserve(65);
  for (int i = 0; i < 65; ++i) clients.emplace_back(port());
  // The one that has been silent longest made room for the last.
  EXPECT_TRUE(clients.front().closesWithin(seconds(60)));
  // All ask at once, since each has ten seconds for its request: one after the other, the last one
  // may be too late.
  for (int i = 1; i < 65; ++i) clients[i].send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  for (int i = 1; i < 65; ++i) EXPECT_EQ(bodyOf(clients[i].readResponse()), "ok\n") << i;
  clients.clear();
  // Room again as soon as the server has seen them go.
  std::string body;
  for (int attempt = 0; attempt < 3000 && body.empty(); ++attempt) {
    body = bodyOf(fetch(port(), "GET /healthz"));
    if (body.empty()) std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(body, "ok\n");
}

TEST_F(HttpServerTest, ABusyPortIsReportedByItsNumber) {
  const HttpServerResult busy = HttpServer::start({.tcp = TcpOptions{.port = port()}}, routes());
  EXPECT_EQ(busy.server, nullptr);
  EXPECT_EQ(busy.problem, "another program uses 127.0.0.1 port " + std::to_string(port()));
  const HttpServerResult nowhere =
      HttpServer::start({.tcp = TcpOptions{.address = "nowhere"}}, routes());
  EXPECT_EQ(nowhere.server, nullptr);
  EXPECT_NE(nowhere.problem.find("nowhere"), std::string::npos) << nowhere.problem;
}

TEST_F(HttpServerTest, TheNextFreePortIsTaken) {
  const auto start_at = [&](std::uint16_t first, int ports) {
    return HttpServer::start({.tcp = TcpOptions{.port = first, .ports = ports}}, routes());
  };
  // Two ports side by side, both ours: another program's port may be free a moment later.
  std::unique_ptr<HttpServer> first, second;
  for (int attempt = 0; attempt < 100 && second == nullptr; ++attempt) {
    first = start({});
    if (first->port() > 65535 - 99) continue;  // 100 ports from here are tried below
    second = start_at(static_cast<std::uint16_t>(first->port() + 1), 1).server;
  }
  ASSERT_NE(second, nullptr);
  const HttpServerResult none = start_at(first->port(), 2);
  EXPECT_EQ(none.server, nullptr);
  EXPECT_EQ(none.problem, "other programs use 127.0.0.1 port " + std::to_string(first->port()) +
                              " and all up to " + std::to_string(second->port()));
  // Other programs may have the next ports: one of 100 is free.
  const auto [third, problem] = start_at(first->port(), 100);
  ASSERT_NE(third, nullptr) << problem;
  EXPECT_GT(third->port(), second->port());
  EXPECT_EQ(bodyOf(fetch(third->port(), "GET /healthz")), "ok\n");
  // None is tried beyond the last one that there is.
  const auto last = start_at(65535, 100).server;
  EXPECT_EQ(last != nullptr ? last->port() : 65535, 65535);
}

TEST_F(HttpServerTest, AFailingRendererIsAnErrorOfOneRequest) {
  std::atomic<bool> fails{true};
  Routes failing;
  failing.get("/metrics", [&](const Request&) -> Response {
    if (fails) throw std::runtime_error("not now");
    return {.body = "fine 1\n"};
  });
  const auto server = HttpServer::start({.tcp = TcpOptions{}}, failing).server;
  EXPECT_EQ(statusOf(fetch(server->port(), "GET /metrics")), "HTTP/1.1 500 Internal Server Error");
  fails = false;
  EXPECT_EQ(bodyOf(fetch(server->port(), "GET /metrics")), "fine 1\n");
}

TEST_F(HttpServerTest, StopsWhileConnectionsAreOpen) {
  RawClient silent(port());
  RawClient served(port());
  served.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(bodyOf(served.readResponse()), "ok\n");
  const std::uint16_t freed = port();
  server_.reset();
  EXPECT_TRUE(silent.closesWithin(seconds(60)));
  EXPECT_TRUE(served.closesWithin(seconds(60)));
  EXPECT_EQ(start({.port = freed})->port(), freed);  // at once, despite TIME_WAIT
}

TEST_F(HttpServerTest, ItsThreadIsNamedAndTakesNoSignals) {
  fetch(port(), "GET /healthz");
  bool found = false;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "ebbtide-http") continue;
    found = true;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      const auto blocked = std::stoull(line.substr(7), nullptr, 16);
      for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGUSR1}) {
        EXPECT_NE(blocked >> (signal - 1) & 1, 0U) << signal;
      }
    }
  }
  EXPECT_TRUE(found);
  sigset_t here;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &here), 0);
  EXPECT_EQ(sigismember(&here, SIGINT), 0);  // the caller's mask is as it was
}

// The child destroys its copy, exits, and the parent goes on serving. A second child keeps its copy
// open, and still the parent's port is free after the parent's server ended.
TEST_F(HttpServerTest, AForkedChildDisturbsNothing) {
  RawClient before(port());
  before.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(bodyOf(before.readResponse()), "ok\n");
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    server_.reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics")), "up 1\n");
  before.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(bodyOf(before.readResponse()), "up 1\n");

  const pid_t holder = ::fork();
  if (holder == 0) {
    ::alarm(60);
    for (;;) ::pause();
  }
  const std::uint16_t freed = port();
  server_.reset();
  EXPECT_TRUE(before.closesWithin(seconds(60)));
  EXPECT_EQ(start({.port = freed})->port(), freed);
  ::kill(holder, SIGKILL);
  ::waitpid(holder, &status, 0);
}

TEST_F(HttpServerTest, ScrapesWhileTheMetricsChange) {
  RankMetrics metrics({.rank = 5, .local_rank = 2});
  Routes rendering;
  rendering.get("/metrics", [&](const Request&) { return Response{.body = metrics.render()}; });
  const auto server = HttpServer::start({.tcp = TcpOptions{}}, rendering).server;
  ASSERT_NE(server, nullptr);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] {
      while (!stop) {
        metrics.addStep(0.1);
        metrics.add(Counter::kSpilledBytes, 1);
        metrics.setBytes(Gauge::kAllocatedBytes, 1);
      }
    });
  }
  for (int scrape = 0; scrape < 50; ++scrape) {
    const std::string body = bodyOf(fetch(server->port(), "GET /metrics"));
    EXPECT_NE(body.find(R"(ebbtide_memory_allocated_bytes{local_rank="2",rank="5"})"),
              std::string::npos);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ebbtide::metrics::test
