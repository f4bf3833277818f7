// A machine of several ranks, each with a server of its own, seen through the first one's port.
#include "node_view.hpp"

#include <atomic>
#include <fstream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "failing_allocation.hpp"
#include "ranks_on_a_node.hpp"

namespace ebbtide::metrics::test {
namespace {

using nlohmann::json;
using std::chrono::seconds;

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
