// Ranks that are late, gone or talk nonsense, and files in their folder that are no rank's socket.
// The view leaves them out and shows the others.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ebbtide/metrics/http_server.hpp"
#include "ranks_on_a_node.hpp"

namespace ebbtide::metrics::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// No other rank is there that may be late on a busy machine.
TEST_F(NodeViewTest, ARankHasASecondToAnswer) {
  gather_limit_ = NodeOptions().gather_limit;
  start(1);
  const int silent = listenSilently(1);
  const json node = json::parse(bodyOf(fetch(port(), "GET /v1/node")));
  ASSERT_EQ(node["ranks"].size(), 2U);
  EXPECT_EQ(node["ranks"][0], (json{{"rank", 0}}));
  EXPECT_EQ(node["ranks"][1]["error"], "the rank did not answer within 1000 ms");
  ::close(silent);
}

// One rank hangs, one has died, one speaks nonsense: the others are shown once the limit is over.
// 10 s are enough for the ranks that answer, on a busy machine too.
TEST_F(NodeViewTest, RanksThatDoNotAnswerAreLeftOutAndNamed) {
  gather_limit_ = seconds(10);
  start(3);
  const int silent = listenSilently(3);
  ::close(listenSilently(4));  // its name stays
  Routes nonsense;
  nonsense.get("/metrics", [](const Request&) {
    return Response{.content_type = "text/html", .body = "up{rank=\"5\"} 1\n"};
  });
  nonsense.get("/v1/status", [](const Request&) { return Response{.body = R"({"rank":5)"}; });
  siblings_.push_back(sibling(5, nonsense));
  siblings_.push_back(sibling(6, Routes()));
  // Both questions wait for the silent rank at the same time.
  RawClient scraping(port()), viewing(port());
  scraping.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  viewing.send("GET /v1/node HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(
      bodyOf(scraping.readResponse()),
      "# TYPE up gauge\nup{rank=\"0\"} 1\nup{rank=\"1\"} 1\nup{rank=\"2\"} 1\n" + counts(7, 3));
  const json node = json::parse(bodyOf(viewing.readResponse()));
  ASSERT_EQ(node["ranks"].size(), 7U);
  EXPECT_EQ(node["ranks"][2], (json{{"rank", 2}}));
  const auto error = [&](int rank) {
    EXPECT_EQ(node["ranks"][rank]["rank"], rank);
    return node["ranks"][rank]["error"].get<std::string>();
  };
  EXPECT_EQ(error(3), "the rank did not answer within 10000 ms");
  EXPECT_NE(error(4).find("refused"), std::string::npos) << error(4);
  EXPECT_EQ(error(5), "the rank answered with status 200");
  EXPECT_NE(error(6).find("there is nothing at /v1/status"), std::string::npos) << error(6);
  EXPECT_EQ(node["ranks"][3]["code"], "EB124");     // too late
  EXPECT_EQ(node["ranks"][4]["code"], "EB123");     // nobody listens
  EXPECT_FALSE(node["ranks"][5].contains("code"));  // what came is no answer of ours
  EXPECT_EQ(node["ranks"][6]["code"], "EB110");     // that rank's own
  ::close(silent);
}

// Clients show the code, and look it up: only a code of Ebbtide's form is passed on.
TEST_F(NodeViewTest, OnlyACodeIsPassedOnAsOne) {
  gather_limit_ = std::chrono::minutes(10);
  start(1);
  const std::vector<std::string> told = {
      R"("EB12")",  R"("EB128")",       R"("EB1")", R"("EB1284")",  R"("EB")", R"("eb128")",
      R"("EB12x")", R"("EB\u001b[1m")", R"("")",    R"(" EB128 ")", "128",     R"(["EB128"])"};
  for (std::size_t i = 0; i < told.size(); ++i) {
    Routes routes;
    routes.get("/v1/status", [code = told[i]](const Request&) {
      return Response{.status = 409, .body = R"({"error":"no","code":)" + code + "}"};
    });
    siblings_.push_back(sibling(static_cast<int>(i) + 1, routes));
  }
  const json ranks = json::parse(bodyOf(fetch(port(), "GET /v1/node")))["ranks"];
  ASSERT_EQ(ranks.size(), 1 + told.size());
  EXPECT_EQ(ranks[1], (json{{"rank", 1}, {"error", "no"}, {"code", "EB12"}}));
  EXPECT_EQ(ranks[2], (json{{"rank", 2}, {"error", "no"}, {"code", "EB128"}}));
  for (std::size_t rank = 3; rank < ranks.size(); ++rank)
    EXPECT_EQ(ranks[rank], (json{{"rank", rank}, {"error", "no"}})) << told[rank - 1];
}

// The second silent rank is asked at once, too. One after the other, it would be asked in ten
// minutes.
TEST_F(NodeViewTest, OthersAreAnsweredAndAskedWhileARankIsWaitedFor) {
  gather_limit_ = std::chrono::minutes(10);
  start(1);
  pollfd silent[] = {{listenSilently(1), POLLIN, 0}, {listenSilently(2), POLLIN, 0}};
  RawClient waiting(port());
  waiting.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(bodyOf(fetch(port(), "GET /healthz")), "ok\n");
  for (pollfd& rank : silent) EXPECT_EQ(::poll(&rank, 1, 60'000), 1);
  EXPECT_FALSE(waiting.receivesWithin(milliseconds(0)));
  for (const pollfd& rank : silent) ::close(rank.fd);
}

TEST_F(NodeViewTest, ARankThatStartsAnewIsFoundAgain) {
  start(2);
  const std::string with_both = bodyOf(fetch(port(), "GET /metrics"));
  siblings_.clear();
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics")),
            "# TYPE up gauge\nup{rank=\"0\"} 1\n" + counts(2, 1));
  siblings_.push_back(sibling(1, routesOf(1)));
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics")), with_both);
}

// No server of ours answers on the sibling's socket. It sends noise, or promises a body that does
// not come or is too large. Or its JSON is none, or is nested without end.
TEST_F(NodeViewTest, WhatARankSaysMayBeAnything) {
  start(2);
  const int listening = listenSilently(2);
  const std::string ok = "HTTP/1.1 200 OK\r\nContent-Type: " + std::string(kText) + "\r\n";
  const std::string nested(100'000, '[');
  const std::vector<std::string> answers = {
      "",
      "\r\n\r\n",
      "HTTP/1.1 200 OK\r\n",
      ok + "Content-Length: 99999999999\r\n\r\nup 1\n",
      ok + "Content-Length: 10\r\n\r\nup 1\n",
      ok + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
      ok + "X-A: " + std::string(20'000, 'a') + "\r\n\r\n",
      "HTTP/1.1 999 What\r\nContent-Length: 2\r\n\r\n{}",
      ok + "Content-Length: 100000\r\n\r\n" + nested,
      ok + "Content-Length: 9\r\n\r\n{\"a\":\xff\xfe}x",
      ok + "Content-Length: 4\r\n\r\nnull",
      ok + "\r\n" + std::string(17 << 20, 'x'),  // until it closes: over 16 MiB
  };
  for (const std::string& answer : answers) {
    std::thread rank([&] {
      for (int request = 0; request < 2; ++request) {
        const int client = ::accept(listening, nullptr, nullptr);
        char bytes[4096];
        EXPECT_GT(::recv(client, bytes, sizeof bytes, 0), 0);
        for (std::size_t at = 0; at < answer.size();) {
          const ssize_t sent = ::send(client, answer.data() + at, answer.size() - at, MSG_NOSIGNAL);
          if (sent <= 0) break;
          at += static_cast<std::size_t>(sent);
        }
        ::close(client);
      }
    });
    EXPECT_TRUE(bodyOf(fetch(port(), "GET /metrics"))
                    .starts_with("# TYPE up gauge\nup{rank=\"0\"} 1\nup{rank=\"1\"} 1\n# HELP"))
        << answer.substr(0, 100);
    const json node = json::parse(bodyOf(fetch(port(), "GET /v1/node")), nullptr, false);
    rank.join();
    ASSERT_TRUE(node.is_object()) << answer.substr(0, 100);
    EXPECT_EQ(node["ranks"][1], (json{{"rank", 1}}));
    EXPECT_EQ(node["ranks"][2]["rank"], 2);
    EXPECT_FALSE(node["ranks"][2]["error"].get<std::string>().empty()) << answer.substr(0, 100);
  }
  ::close(listening);
}

// A killed run of four ranks left its sockets; the next one of the same job has two.
TEST_F(NodeViewTest, SocketsOfAKilledRunAreTakenAway) {
  ASSERT_EQ(::mkdir(folder_.c_str(), 0700), 0);
  for (int rank = 1; rank < 4; ++rank) ::close(listenSilently(rank));
  const int alive = listenSilently(4);
  start(2);
  EXPECT_FALSE(std::filesystem::exists(socketOf(2)));
  EXPECT_FALSE(std::filesystem::exists(socketOf(3)));
  EXPECT_TRUE(std::filesystem::exists(socketOf(4)));
  ::close(alive);
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics")),
            "# TYPE up gauge\nup{rank=\"0\"} 1\nup{rank=\"1\"} 1\n" + counts(3, 2));
}

// Others may put sockets into a folder that is open to them. No such socket is asked.
TEST_F(NodeViewTest, InAFolderThatIsRefusedNobodyIsAsked) {
  std::atomic<int> scrapes{0};
  siblings_.push_back(sibling(1, routesOf(1, &scrapes)));
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  HttpServerOptions options;
  options.tcp.emplace();
  options.unix_path = socketOf(0);
  options.node = {.folder = folder_, .job_id = "job", .rank = 0, .local_world_size = 2};
  auto [server, problem] = HttpServer::start(options, routesOf(0));
  ASSERT_NE(server, nullptr);
  EXPECT_NE(problem.find("open to other users"), std::string::npos) << problem;
  server_ = std::move(server);
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics")),
            "# TYPE up gauge\nup{rank=\"0\"} 1\n" + counts(2, 1));
  const json node = json::parse(bodyOf(fetch(port(), "GET /v1/node")));
  EXPECT_EQ(node["ranks"], (json{{{"rank", 0}}}));
  EXPECT_EQ(statusOf(fetch(port(), "GET /metrics?rank=1")), "HTTP/1.1 404 Not Found");
  EXPECT_EQ(scrapes, 0);
}

// The folder keeps other users out. If one had a socket there, it would be told nothing.
TEST_F(NodeViewTest, TheSocketOfAnotherUserIsNotAsked) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  start(1);
  const int listening = listenSilently(1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    // The other end sees the user that calls listen().
    if (::setresuid(65534, 65534, 65534) != 0 || ::listen(listening, 10) != 0) ::_exit(2);
    char bytes[4096];
    const int client = ::accept(listening, nullptr, nullptr);
    ::_exit(::recv(client, bytes, sizeof bytes, 0) == 0 ? 0 : 1);  // closed, and nothing said
  }
  for (int attempt = 0; attempt < 3000; ++attempt) {  // until the child is another user
    ucred peer{};
    socklen_t size = sizeof peer;
    ::getsockopt(listening, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    if (peer.uid == 65534) break;
    std::this_thread::sleep_for(milliseconds(20));
  }
  const json ranks = json::parse(bodyOf(fetch(port(), "GET /v1/node")))["ranks"];
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_NE(ranks[1]["error"].get<std::string>().find("another user"), std::string::npos)
      << ranks[1];
  ::close(listening);
}

// Names in the folder that are no rank's socket, and a folder that is gone.
TEST_F(NodeViewTest, OtherFilesInTheFolderAreNoRanks) {
  start(1);
  for (const char* name : {"rank-.sock", "rank-1x.sock", "rank--1.sock", "rank-1", ".123",
                           "rank-0.sock.old", "rank-99999999999.sock"}) {
    std::ofstream(folder_ + "/" + name) << "x";
  }
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics")),
            "# TYPE up gauge\nup{rank=\"0\"} 1\n" + counts(1, 1));
  std::ofstream(folder_ + "/rank-7.sock") << "x";  // not a socket: a rank that cannot be reached
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics")),
            "# TYPE up gauge\nup{rank=\"0\"} 1\n" + counts(2, 1));
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics")),
            "# TYPE up gauge\nup{rank=\"0\"} 1\n" + counts(1, 1));
}

}  // namespace
}  // namespace ebbtide::metrics::test
