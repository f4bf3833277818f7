// Thousands of broken requests and a thousand idle connections, while a scraper goes on.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ebbtide/metrics/http_server.hpp"
#include "ebbtide/metrics/pages.hpp"
#include "private_folder.hpp"
#include "raw_client.hpp"

namespace ebbtide::metrics::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

int openDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

class HostileClientsTest : public testing::Test {
 protected:
  HostileClientsTest() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    Routes routes;
    addPages(routes);
    routes.get("/metrics", [](const Request&) {
      return Response{.content_type = "text/plain; version=0.0.4", .body = "up 1\n"};
    });
    routes.post("/v1/budget", [this](const Request&, const Answer& answer) {
      ++changes_;
      answer({});
    });
    HttpServerOptions options;
    options.tcp.emplace();
    options.unix_path = folder_ / "job/rank-0.sock";
    options.node = {.folder = folder_ / "job"};
    auto [server, problem] = HttpServer::start(options, routes);
    EXPECT_NE(server, nullptr) << problem;
    server_ = std::move(server);
  }
  std::uint16_t port() const { return server_->port(); }
  void breakRequests(int count);

  PrivateFolder folder_;
  std::atomic<int> changes_{0};
  std::unique_ptr<HttpServer> server_;
};

constexpr unsigned kKinds = 12;

// Whatever somebody in a hurry, a fool or an attacker may send, of a kind.
std::string brokenRequest(std::mt19937& random, unsigned kind) {
  const std::string good = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::string text = good;
  switch (kind) {
    case 0:  // noise
      text.resize(random() % 300);
      for (char& c : text) c = static_cast<char>(random());
      return text;
    case 1:  // a byte or more changed
      for (int change = 0; change < 4; ++change) {
        text[random() % text.size()] = static_cast<char>(random());
      }
      return text;
    case 2:  // half of it
      return good.substr(0, random() % good.size());
    case 3:  // header bombs: many, and long
      text = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n";
      for (std::size_t i = random() % 3000; i > 0; --i) text += "X-A: b\r\n";
      return text + "\r\n";
    case 4:
      return "GET /" + std::string(random() % 20'000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n";
    case 5:
      return "GET /..%2f..%2fetc/passwd?rank=../../x HTTP/1.1\r\nHost: localhost\r\n\r\n";
    case 6:  // a body larger than what is taken, or than what comes
      return "POST /v1/budget HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
             std::to_string(random()) + "\r\n\r\n" + std::string(random() % 1000, 'x');
    case 7:
      return "POST /v1/budget HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
             std::to_string(random()) + "\r\nxx";
    case 8:
      return "GET /%" + std::string(1, static_cast<char>(random())) + " HTTP/9.9\r\n\r\n";
    case 9:
      return "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n";
    case 10:
      return "POST /v1/budget HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}";
    default:  // many at once, none of whose answers is read
      for (int i = 0; i < 20; ++i) text += good;
      return text;
  }
}

template <typename Condition>
void waitUntil(Condition holds) {
  for (int attempt = 0; attempt < 3000 && !holds(); ++attempt) {
    std::this_thread::sleep_for(milliseconds(20));
  }
}

// Of 200 the answer is looked at, if it comes within 50 ms; the others are gone at once.
void HostileClientsTest::breakRequests(int count) {
  const int before = openDescriptors();
  std::atomic<bool> stop{false};
  std::atomic<int> scrapes{0};
  std::atomic<int> lost{0};
  std::thread scraper([&] {
    while (!stop) {
      (bodyOf(fetch(port(), "GET /metrics")).starts_with("up 1\n") ? scrapes : lost) += 1;
    }
  });
  const std::set<std::string> answers = {"",
                                         "HTTP/1.1 200 OK",
                                         "HTTP/1.0 200 OK",
                                         "HTTP/1.1 400 Bad Request",
                                         "HTTP/1.0 400 Bad Request",
                                         "HTTP/1.1 403 Forbidden",
                                         "HTTP/1.1 404 Not Found",
                                         "HTTP/1.1 405 Method Not Allowed",
                                         "HTTP/1.0 405 Method Not Allowed",
                                         "HTTP/1.1 413 Payload Too Large",
                                         "HTTP/1.1 417 Expectation Failed",
                                         "HTTP/1.1 421 Misdirected Request",
                                         "HTTP/1.0 421 Misdirected Request",
                                         "HTTP/1.1 431 Request Header Fields Too Large"};
  std::mt19937 random(5);
  std::map<std::string, int> seen;
  for (int request = 0; request < count; ++request) {
    RawClient client(port());
    client.send(brokenRequest(random, random() % kKinds));
    if (request % (count / 200) == 0) ++seen[statusOf(client.readAll(milliseconds(50)))];
  }
  const std::vector<std::string> wanted = {
      "HTTP/1.1 400 Bad Request",         "HTTP/1.1 404 Not Found",
      "HTTP/1.1 403 Forbidden",           "HTTP/1.1 413 Payload Too Large",
      "HTTP/1.1 421 Misdirected Request", "HTTP/1.1 431 Request Header Fields Too Large"};
  const auto each_seen = [&] {
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](const std::string& status) { return seen.contains(status); });
  };
  // A busy machine needs longer for them: twice as long each time.
  for (milliseconds patience{100}; patience < seconds(20) && !each_seen(); patience *= 2) {
    for (unsigned kind = 0; kind < kKinds && !each_seen(); ++kind) {
      RawClient client(port());
      client.send(brokenRequest(random, kind));
      ++seen[statusOf(client.readAll(patience))];
    }
  }
  waitUntil([&] { return scrapes > 10; });
  stop = true;
  scraper.join();
  for (const auto& [status, times] : seen) EXPECT_TRUE(answers.contains(status)) << status;
  for (const std::string& status : wanted) EXPECT_TRUE(seen.contains(status)) << status;
  EXPECT_GT(scrapes, 10);
  EXPECT_EQ(lost, 0);
  EXPECT_EQ(changes_, 0);  // over TCP, without a token
  // What they cost is given back: nothing stays open but what the server opened itself.
  waitUntil([&] { return openDescriptors() <= before + 4; });
  EXPECT_LE(openDescriptors(), before + 4);
}

TEST_F(HostileClientsTest, BrokenRequestsLeaveTheScraperAlone) {
  breakRequests(2000);
}
TEST_F(HostileClientsTest, TenThousandBrokenRequestsLeaveTheScraperAlone) {  // nightly
  breakRequests(10'000);
}

// A thousand that say nothing, or half a header: 64 are kept, and a scraper is none of them.
TEST_F(HostileClientsTest, AThousandIdleConnectionsShutNobodyOut) {
  const int before = openDescriptors();
  std::vector<RawClient> idle;
  idle.reserve(1000);
  for (int i = 0; i < 1000; ++i) {
    idle.emplace_back(port());
    if (i % 2 == 1) idle.back().send("GET /metrics HTTP/1.1\r\nHost");
    if (i % 50 == 0) {
      EXPECT_EQ(statusOf(fetch(port(), "GET /metrics")), "HTTP/1.1 200 OK") << i;
    }
  }
  for (int scrape = 0; scrape < 20; ++scrape) {
    EXPECT_EQ(statusOf(fetch(port(), "GET /metrics")), "HTTP/1.1 200 OK") << scrape;
  }
  EXPECT_EQ(statusOf(fetch(folder_ / "job/rank-0.sock", "GET /metrics")), "HTTP/1.1 200 OK");
  // The clients' 1000 ends are ours too; of the server's at most 64 are left, and its two sides'.
  waitUntil([&] { return openDescriptors() <= before + 1000 + 70; });
  EXPECT_LE(openDescriptors(), before + 1000 + 70);
}

// Each asks for the page and reads nothing of it, as often as the server takes it.
TEST_F(HostileClientsTest, ClientsThatNeverReadShutNobodyOut) {
  std::vector<RawClient> greedy;
  for (int i = 0; i < 200; ++i) {
    greedy.emplace_back(port());
    std::string many;
    for (int request = 0; request < 50; ++request) {
      many += "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    }
    greedy.back().send(many);
    if (i % 20 == 0) {
      EXPECT_EQ(statusOf(fetch(port(), "GET /metrics")), "HTTP/1.1 200 OK") << i;
    }
  }
  EXPECT_EQ(statusOf(fetch(port(), "GET /metrics")), "HTTP/1.1 200 OK");
}

}  // namespace
}  // namespace ebbtide::metrics::test
