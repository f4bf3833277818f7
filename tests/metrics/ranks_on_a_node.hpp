// NodeViewTest: a machine of several ranks, each with a server of its own. Rank 0 has the port.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ebbtide/metrics/http_server.hpp"
#include "ebbtide/metrics/pages.hpp"
#include "private_folder.hpp"
#include "raw_client.hpp"

namespace ebbtide::metrics::test {

class NodeViewTest : public testing::Test {
 protected:
  static constexpr const char* kText = "text/plain; version=0.0.4; charset=utf-8";
  static constexpr const char* kOpen = "application/openmetrics-text; version=1.0.0; charset=utf-8";

  static Routes routesOf(int rank, std::atomic<int>* scrapes = nullptr) {
    const std::string number = std::to_string(rank);
    Routes routes;
    addPages(routes);
    routes.get("/metrics", [number, scrapes](const Request& request) {
      if (scrapes != nullptr) ++*scrapes;
      const bool open = request.accept.find("openmetrics") != std::string::npos;
      return Response{
          .content_type = open ? kOpen : kText,
          .body = "# TYPE up gauge\nup{rank=\"" + number + "\"} 1\n" + (open ? "# EOF\n" : "")};
    });
    routes.get("/v1/status", [number](const Request&) {
      return Response{.body = R"({"rank":)" + number + "}\n"};
    });
    routes.get("/v1/plan", [number](const Request& request) {
      std::string query;
      for (const auto& [name, value] : request.query) query += name + "=" + value + ";";
      return Response{.body = nlohmann::json{{"rank", number}, {"query", query}}.dump()};
    });
    routes.post("/v1/budget", [number](const Request& request, const Answer& answer) {
      answer({.status = 202, .body = number + " got " + request.body});
    });
    return routes;
  }

  std::string socketOf(int rank) const {
    return folder_ + "/rank-" + std::to_string(rank) + ".sock";
  }

  std::unique_ptr<HttpServer> sibling(int rank, const Routes& routes) {
    HttpServerOptions options;
    options.unix_path = socketOf(rank);
    auto [server, problem] = HttpServer::start(options, routes);
    EXPECT_NE(server, nullptr) << problem;
    return std::move(server);
  }

  // Rank 0's own, with the port.
  void start(int ranks, bool with_token = false, std::atomic<int>* scrapes = nullptr) {
    HttpServerOptions options;
    options.tcp.emplace();
    options.unix_path = socketOf(0);
    options.node = {.folder = folder_,
                    .job_id = "job",
                    .rank = 0,
                    .local_world_size = ranks,
                    .gather_limit = gather_limit_};
    if (with_token) {
      std::ofstream(base_ / "token") << "0123456789abcdef";
      ::chmod((base_ / "token").c_str(), 0600);
      options.tcp->token = BearerToken::read(base_ / "token").token;
    }
    auto [server, problem] = HttpServer::start(options, routesOf(0, scrapes));
    ASSERT_NE(server, nullptr) << problem;
    server_ = std::move(server);
    for (int rank = 1; rank < ranks; ++rank) {
      siblings_.push_back(sibling(rank, routesOf(rank, scrapes)));
    }
  }
  std::uint16_t port() const { return server_->port(); }

  // A socket that listens, and never answers.
  int listenSilently(int rank) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socketOf(rank).copy(address.sun_path, sizeof address.sun_path - 1);
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::listen(descriptor, 10);
    return descriptor;
  }

  static std::string counts(int expected, int answered) {
    return "# HELP ebbtide_node_ranks Ranks of this job expected on this machine.\n"
           "# TYPE ebbtide_node_ranks gauge\nebbtide_node_ranks{job_id=\"job\"} " +
           std::to_string(expected) +
           "\n# HELP ebbtide_node_ranks_answered Ranks of this machine whose series are here.\n"
           "# TYPE ebbtide_node_ranks_answered "
           "gauge\nebbtide_node_ranks_answered{job_id=\"job\"} " +
           std::to_string(answered) + "\n";
  }

  // Returns once the server has read all requests: it reads what was sent before a request first.
  void sendAll(std::vector<RawClient>& clients, const std::vector<std::string>& requests) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      clients.emplace_back(port());
      clients.back().send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
      EXPECT_EQ(bodyOf(clients.back().readResponse()), "ok\n");
    }
    for (std::size_t i = 0; i < requests.size(); ++i) clients[i].send(requests[i]);
    EXPECT_EQ(bodyOf(fetch(port(), "GET /healthz")), "ok\n");
  }

  std::chrono::milliseconds gather_limit_ = std::chrono::seconds(60);  // longer than any rank needs
  PrivateFolder base_;
  const std::string folder_ = base_ / "job";
  std::unique_ptr<HttpServer> server_;
  std::vector<std::unique_ptr<HttpServer>> siblings_;
};

}  // namespace ebbtide::metrics::test
