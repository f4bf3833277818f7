// A machine of several ranks, each with a server of its own, seen through the first one's port.
#include "node_view.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ebbtide/metrics/http_server.hpp"
#include "ebbtide/metrics/pages.hpp"
#include "failing_allocation.hpp"
#include "private_folder.hpp"
#include "raw_client.hpp"

namespace ebbtide::metrics::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr const char* kText = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kOpen = "application/openmetrics-text; version=1.0.0; charset=utf-8";

class NodeViewTest : public testing::Test {
 protected:
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
      return Response{.body = json{{"rank", number}, {"query", query}}.dump()};
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

  // A socket that somebody listens on who never answers.
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

  // Once the server has read all that these ask for: what was sent before a request is read before.
  void sendAll(std::vector<RawClient>& clients, const std::vector<std::string>& requests) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      clients.emplace_back(port());
      clients.back().send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
      EXPECT_EQ(bodyOf(clients.back().readResponse()), "ok\n");
    }
    for (std::size_t i = 0; i < requests.size(); ++i) clients[i].send(requests[i]);
    EXPECT_EQ(bodyOf(fetch(port(), "GET /healthz")), "ok\n");
  }

  std::chrono::milliseconds gather_limit_ = seconds(60);  // longer than any rank needs
  PrivateFolder base_;
  const std::string folder_ = base_ / "job";
  std::unique_ptr<HttpServer> server_;
  std::vector<std::unique_ptr<HttpServer>> siblings_;
};

TEST_F(NodeViewTest, JoinsTheSeriesOfAllRanks) {
  start(3);
  const std::string up = "# TYPE up gauge\nup{rank=\"0\"} 1\nup{rank=\"1\"} 1\nup{rank=\"2\"} 1\n";
  for (int scrape = 0; scrape < 3; ++scrape) {  // the later ones over connections that were kept
    const std::string response = fetch(port(), "GET /metrics");
    EXPECT_NE(response.find(std::string("\r\nContent-Type: ") + kText + "\r\n"), std::string::npos);
    EXPECT_EQ(bodyOf(response), up + counts(3, 3));
  }
  const std::string open =
      fetch(port(), "GET /metrics", "Host: localhost\r\nAccept: application/openmetrics-text\r\n");
  EXPECT_NE(open.find(std::string("\r\nContent-Type: ") + kOpen + "\r\n"), std::string::npos);
  EXPECT_EQ(bodyOf(open), up + counts(3, 3) + "# EOF\n");
  // Over its own socket a rank answers for itself.
  EXPECT_EQ(bodyOf(fetch(socketOf(0), "GET /metrics")), "# TYPE up gauge\nup{rank=\"0\"} 1\n");
}

TEST_F(NodeViewTest, ListsTheStatusOfAllRanksByNumber) {
  start(12);
  const json node = json::parse(bodyOf(fetch(port(), "GET /v1/node")));
  EXPECT_EQ(node["job_id"], "job");
  EXPECT_EQ(node["local_world_size"], 12);
  ASSERT_EQ(node["ranks"].size(), 12U);
  for (int rank = 0; rank < 12; ++rank) EXPECT_EQ(node["ranks"][rank], (json{{"rank", rank}}));
}

// One hangs, one has died, one speaks nonsense: the others are there once the limit is over.
TEST_F(NodeViewTest, RanksThatDoNotAnswerAreLeftOutAndNamed) {
  gather_limit_ = NodeOptions().gather_limit;
  ASSERT_EQ(gather_limit_, seconds(1));
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
  // On a busy machine that second may not do for the others either.
  const auto end = steady_clock::now() + seconds(60);
  const std::string expected =
      "# TYPE up gauge\nup{rank=\"0\"} 1\nup{rank=\"1\"} 1\nup{rank=\"2\"} 1\n" + counts(7, 3);
  std::string series;
  do {
    series = bodyOf(fetch(port(), "GET /metrics"));
  } while (series != expected && steady_clock::now() < end);
  EXPECT_EQ(series, expected);
  json node;
  do {
    node = json::parse(bodyOf(fetch(port(), "GET /v1/node")));
  } while (node["ranks"][2] != json{{"rank", 2}} && steady_clock::now() < end);
  ASSERT_EQ(node["ranks"].size(), 7U);
  EXPECT_EQ(node["ranks"][2], (json{{"rank", 2}}));
  const auto error = [&](int rank) {
    EXPECT_EQ(node["ranks"][rank]["rank"], rank);
    return node["ranks"][rank]["error"].get<std::string>();
  };
  EXPECT_EQ(error(3), "the rank did not answer within 1000 ms");
  EXPECT_NE(error(4).find("refused"), std::string::npos) << error(4);
  EXPECT_EQ(error(5), "the rank answered with status 200");
  EXPECT_NE(error(6).find("there is nothing at /v1/status"), std::string::npos) << error(6);
  EXPECT_EQ(node["ranks"][3]["code"], "EB124");     // too late
  EXPECT_EQ(node["ranks"][4]["code"], "EB123");     // nobody listens
  EXPECT_FALSE(node["ranks"][5].contains("code"));  // what came is no answer of ours
  EXPECT_EQ(node["ranks"][6]["code"], "EB110");     // that rank's own
  ::close(silent);
}

// Whoever shows it, or looks it up, gets one of ours.
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

// Another rank, too: one after another, it would be asked in ten minutes.
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

TEST_F(NodeViewTest, PassesARequestOnToTheRankItNames) {
  start(3);
  const auto plan = [this](const std::string& query) {
    return json::parse(bodyOf(fetch(port(), "GET /v1/plan" + query)));
  };
  EXPECT_EQ(plan("")["rank"], "0");
  EXPECT_EQ(plan("?rank=0")["rank"], "0");
  EXPECT_EQ(plan("?rank=2")["rank"], "2");
  EXPECT_EQ(plan("?a=x%20%26&rank=2&b=%c3%a4")["query"], "a=x &;b=\xc3\xa4;");
  EXPECT_EQ(bodyOf(fetch(port(), "GET /metrics?rank=1")), "# TYPE up gauge\nup{rank=\"1\"} 1\n");
  const std::string head = fetch(port(), "HEAD /v1/status?rank=1");
  EXPECT_NE(head.find("\r\nContent-Length: 11\r\n"), std::string::npos) << head;  // {"rank":1}\n
  EXPECT_EQ(bodyOf(head), "");
  const auto status = [this](const std::string& query) {
    return statusOf(fetch(port(), "GET /v1/plan" + query));
  };
  for (const char* query : {"?rank=3", "?rank=999999", "?rank=2147483647"})
    EXPECT_EQ(status(query), "HTTP/1.1 404 Not Found") << query;
  for (const char* query :
       {"?rank=", "?rank=-1", "?rank=1.0", "?rank=..%2f1", "?rank=99999999999999999999", "?rank"})
    EXPECT_EQ(status(query), "HTTP/1.1 400 Bad Request") << query;
}

TEST_F(NodeViewTest, PassesChangesOnWithTheToken) {
  start(2, /*with_token=*/true);
  EXPECT_EQ(statusOf(post(port(), "/v1/budget?rank=1", "20GiB")), "HTTP/1.1 401 Unauthorized");
  const std::string header = "Authorization: Bearer 0123456789abcdef\r\n";
  for (int round = 0; round < 3; ++round) {
    const std::string response = post(port(), "/v1/budget?rank=1", "20GiB", header);
    EXPECT_EQ(statusOf(response), "HTTP/1.1 202 Accepted");
    EXPECT_EQ(bodyOf(response), "1 got 20GiB");
  }
  EXPECT_EQ(bodyOf(post(port(), "/v1/budget", "x", header)), "0 got x");
  siblings_.clear();
  EXPECT_EQ(statusOf(post(port(), "/v1/budget?rank=1", "x", header)), "HTTP/1.1 404 Not Found");
}

TEST_F(NodeViewTest, ScrapesAtTheSameTimeAskEachRankOnce) {
  std::atomic<int> scrapes{0};
  start(2, false, &scrapes);
  const int silent = listenSilently(2);  // keeps the first one open until it is gone
  std::vector<RawClient> clients;
  sendAll(clients,
          std::vector<std::string>(30, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  ::close(silent);
  std::set<std::string> bodies;
  for (RawClient& client : clients) bodies.insert(bodyOf(client.readResponse()));
  EXPECT_EQ(bodies.size(), 1U);
  EXPECT_EQ(scrapes, 2);  // ranks 0 and 1, once each
}

// Each client has its own way to ask for the same: there are two formats, so two questions at most.
TEST_F(NodeViewTest, HowTheFormatIsAskedForMakesNoOtherQuestion) {
  std::atomic<int> scrapes{0};
  start(2, false, &scrapes);
  const int silent = listenSilently(2);
  std::vector<std::string> requests;
  for (int i = 0; i < 30; ++i) {
    const std::string type = i % 2 == 0 ? "text/plain" : "application/openmetrics-text";
    requests.push_back("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: " + type +
                       ";client=" + std::to_string(i) + "\r\n\r\n");
  }
  std::vector<RawClient> clients;
  sendAll(clients, requests);
  ::close(silent);
  std::set<std::string> bodies;
  for (RawClient& client : clients) bodies.insert(bodyOf(client.readResponse()));
  EXPECT_EQ(bodies.size(), 2U);
  EXPECT_EQ(scrapes, 4);  // ranks 0 and 1, in each format once
}

// More than are asked at once.
TEST_F(NodeViewTest, AHundredRanksAreAsked) {
  start(100);
  for (int turn = 0; turn < 3; ++turn) {
    const json node = json::parse(bodyOf(fetch(port(), "GET /v1/node")));
    ASSERT_EQ(node["ranks"].size(), 100U);
    for (int rank = 0; rank < 100; ++rank) EXPECT_EQ(node["ranks"][rank], (json{{"rank", rank}}));
  }
}

// What answers on a sibling's socket is no server of ours: noise, promises of a body that does not
// come or is too large, JSON that is none or is nested without end.
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

// Others may put sockets into a folder that is open to them: none of them is asked.
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

// The folder keeps others out; were one in it, it would be told nothing all the same.
TEST_F(NodeViewTest, TheSocketOfAnotherUserIsNotAsked) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  start(1);
  const int listening = listenSilently(1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    // Whoever calls listen() is the one whom the other end sees.
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

// Whichever allocation fails while the ranks are asked, the process lives, who asked is told or
// hung up on, and the next one is answered. Rank 7's name is there, and nobody behind it.
TEST_F(NodeViewTest, WithoutMemoryForOneQuestionTheNextIsAnswered) {
  start(1);
  std::ofstream(folder_ + "/rank-7.sock") << "x";
  boost::asio::io_context context{1};
  const auto mailbox = std::make_shared<Mailbox>(context);
  mailbox->open();
  NodeView view(context, mailbox, {.folder = folder_, .job_id = "job", .rank = 1}, routesOf(1));
  const Routes routes = view.routes();
  const auto statuses = [&](const Request& request, int failing) {
    std::vector<int> given;
    failAllocation(failing);
    try {
      routes.answer(request, [&](const Response& response) { given.push_back(response.status); });
    } catch (const std::bad_alloc&) {
    }
    const bool failed = endFailing();
    context.restart();
    context.run();
    return std::pair(given, failed);
  };
  const Request scrape{.method = "GET", .path = "/metrics"};
  const Request passed{.method = "GET", .path = "/v1/plan", .query = {{"rank", "7"}}};
  for (const auto& [request, status] : {std::pair(scrape, 200), std::pair(passed, 503)}) {
    bool fails = true;
    int told = 0;
    for (int number = 1; fails; ++number) {
      const auto [given, failed] = statuses(request, number);
      fails = failed;
      ASSERT_LE(given.size(), 1U) << "after allocation " << number;
      if (failed && !given.empty() && given[0] == 503) ++told;
      if (!given.empty()) {
        ASSERT_TRUE(given[0] == status || given[0] == 503) << given[0] << " at " << number;
      }
      ASSERT_EQ(statuses(request, 0).first, std::vector<int>{status}) << "after " << number;
    }
    EXPECT_GT(told, 0);
  }
  mailbox->close();
}

TEST_F(NodeViewTest, EndsWhileRanksAreAsked) {
  start(2);
  const int silent = listenSilently(2);
  RawClient client(port());
  client.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(bodyOf(fetch(port(), "GET /healthz")), "ok\n");
  server_.reset();
  EXPECT_EQ(statusOf(client.readResponse()), "HTTP/1.1 503 Service Unavailable");
  EXPECT_TRUE(client.closesWithin(seconds(60)));
  ::close(silent);
}

}  // namespace
}  // namespace ebbtide::metrics::test
