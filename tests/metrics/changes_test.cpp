// POST: who may, how much, and answers that come late.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ebbtide/metrics/http_server.hpp"
#include "ebbtide/metrics/pages.hpp"
#include "failing_allocation.hpp"
#include "listener.hpp"
#include "private_folder.hpp"
#include "raw_client.hpp"
#include "unix_socket.hpp"

namespace ebbtide::metrics::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kToken = "0123456789abcdef";

// Keeps the answers that are to be given, for the test to give them.
class Desk {
 public:
  void take(Answer answer) {
    const std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
    came_.notify_all();
  }
  // The next one, in the order of the questions.
  Answer next() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(came_.wait_for(lock, seconds(60), [this] { return !answers_.empty(); }));
    Answer answer = std::move(answers_.front());
    answers_.erase(answers_.begin());
    return answer;
  }
  void waitFor(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(came_.wait_for(lock, seconds(60), [&] { return answers_.size() >= count; }));
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    answers_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<Answer> answers_;
};

class ChangesTest : public testing::Test {
 protected:
  ChangesTest() {
    std::ofstream(folder_ / "token") << kToken;
    ::chmod((folder_ / "token").c_str(), 0600);
    options_.tcp.emplace();
    options_.unix_path = path_;
  }

  void start(bool with_token) {
    if (with_token) options_.tcp->token = BearerToken::read(folder_ / "token").token;
    Routes routes;
    addPages(routes);
    routes.post("/now", [this](const Request& request, const Answer& answer) {
      ++changes_;
      answer({.body = std::to_string(request.body.size()) + (request.may_change ? " may" : " no")});
    });
    routes.post("/late", [this](const Request&, Answer answer) { desk_.take(std::move(answer)); });
    auto [server, problem] = HttpServer::start(options_, routes);
    ASSERT_NE(server, nullptr) << problem;
    EXPECT_EQ(problem, "");
    server_ = std::move(server);
  }
  std::uint16_t port() const { return server_->port(); }

  PrivateFolder folder_;
  const std::string path_ = folder_ / "job/rank-0.sock";
  HttpServerOptions options_;
  Desk desk_;
  std::atomic<int> changes_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(ChangesTest, TcpIsReadOnlyWithoutAToken) {
  start(false);
  EXPECT_EQ(statusOf(post(port(), "/now", "x")), "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(statusOf(post(port(), "/now", "x", "Authorization: Bearer " + kToken + "\r\n")),
            "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(changes_, 0);
  EXPECT_EQ(bodyOf(post(path_, "/now", "x")), "1 may");
}

TEST_F(ChangesTest, TheTokenLetsChangeOverTcp) {
  start(true);
  const std::string missing = post(port(), "/now", "x");
  EXPECT_EQ(statusOf(missing), "HTTP/1.1 401 Unauthorized");
  EXPECT_NE(missing.find("\r\nWWW-Authenticate: Bearer realm=\"ebbtide\"\r\n"), std::string::npos);
  for (const std::string& given : {"Bearer wrong" + kToken, "Basic " + kToken, std::string()}) {
    const std::string response = post(port(), "/now", "x", "Authorization: " + given + "\r\n");
    EXPECT_EQ(statusOf(response), "HTTP/1.1 401 Unauthorized") << given;
    EXPECT_NE(response.find("error=\"invalid_token\""), std::string::npos) << response;
  }
  EXPECT_EQ(changes_, 0);
  const std::string authorization = "Authorization: Bearer " + kToken + "\r\n";
  EXPECT_EQ(bodyOf(post(port(), "/now", "x", authorization)), "1 may");
  // A page of another site with the token is still a page of another site.
  EXPECT_EQ(statusOf(post(port(), "/now", "x", authorization + "Origin: http://evil.example\r\n")),
            "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(bodyOf(fetch(port(), "GET /healthz")), "ok\n");  // reading needs none
  EXPECT_EQ(bodyOf(post(path_, "/now", "x")), "1 may");      // nor does the Unix socket
  EXPECT_EQ(changes_, 2);
}

TEST_F(ChangesTest, ABodyHasAtMost64Kibibytes) {
  start(false);
  EXPECT_EQ(bodyOf(post(path_, "/now", std::string(65536, 'x'))), "65536 may");
  EXPECT_EQ(statusOf(post(path_, "/now", std::string(65537, 'x'))),
            "HTTP/1.1 413 Payload Too Large");
  RawClient huge(path_);  // refused by what it says it will send
  huge.send("POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n");
  EXPECT_EQ(statusOf(huge.readAll()), "HTTP/1.1 413 Payload Too Large");
  RawClient chunked(path_);
  chunked.send("POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "1000\r\n" + std::string(4096, 'x') + "\r\n";
  for (int i = 0; i < 17 && chunked.send(chunk); ++i) {  // 17 x 4 KiB = 68 KiB
  }
  EXPECT_EQ(statusOf(chunked.readAll()), "HTTP/1.1 413 Payload Too Large");
  EXPECT_EQ(changes_, 1);
}

TEST_F(ChangesTest, BodiesComeInPieces) {
  start(false);
  RawClient client(path_);
  client.send("POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab");
  client.send("c\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(bodyOf(client.readResponse()), "5 may");
  client.send("POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
  client.send("cdGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(bodyOf(client.readResponse()), "4 may");
  EXPECT_EQ(bodyOf(client.readResponse()), "ok\n");
  client.send(
      "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n"
      "Connection: close\r\n\r\n");
  client.send("ok");
  EXPECT_NE(client.readAll().find("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK"),
            std::string::npos);
  EXPECT_EQ(statusOf(post(path_, "/now", "", "Expect: tea\r\n")),
            "HTTP/1.1 417 Expectation Failed");
  // Two ways to say how long it is: the next request would begin where somebody else thinks.
  EXPECT_EQ(statusOf(post(path_, "/now", "ab", "Transfer-Encoding: chunked\r\n")),
            "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(statusOf(fetch(path_, "GET /healthz", "Host: a\r\nHost: b\r\n")),
            "HTTP/1.1 400 Bad Request");
}

TEST_F(ChangesTest, AnAnswerMayComeLaterAndFromAnotherThread) {
  start(false);
  RawClient client(path_);
  client.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  const Answer answer = desk_.next();
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");  // meanwhile
  answer({.status = 202, .body = "from step 7"});
  answer({.status = 500, .body = "again"});
  const std::string response = client.readResponse();
  EXPECT_EQ(statusOf(response), "HTTP/1.1 202 Accepted");
  EXPECT_EQ(bodyOf(response), "from step 7");
  client.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(bodyOf(client.readResponse()), "ok\n");
}

TEST_F(ChangesTest, ADroppedAnswerIsA503) {
  start(false);
  RawClient client(path_);
  client.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  desk_.next();  // and gone
  EXPECT_EQ(statusOf(client.readResponse()), "HTTP/1.1 503 Service Unavailable");
}

TEST_F(ChangesTest, EightAnswersAreWaitedForAtOnce) {
  start(false);
  std::vector<RawClient> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back(path_);
    clients.back().send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    desk_.waitFor(clients.size());  // one by one: the desk has them in this order
  }
  const std::string refused = post(path_, "/late", "");
  EXPECT_EQ(statusOf(refused), "HTTP/1.1 429 Too Many Requests");
  EXPECT_NE(refused.find("\r\nRetry-After: 1\r\n"), std::string::npos);
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
  desk_.next()({.body = "done"});
  EXPECT_EQ(bodyOf(clients[0].readResponse()), "done");
  EXPECT_EQ(bodyOf(post(path_, "/now", "")), "0 may");  // room for one again
}

TEST_F(ChangesTest, AClientThatWentAwayCostsNothing) {
  start(false);
  for (int round = 0; round < 50; ++round) {
    RawClient(path_).send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    desk_.next()({.body = "to nobody"});
  }
  EXPECT_EQ(bodyOf(fetch(path_, "GET /healthz")), "ok\n");
}

// Who waits when the server ends is told so; an answer that was given before still comes. Answers
// may come while the server ends, and after.
TEST_F(ChangesTest, EndsWhileAnswersAreWaitedFor) {
  start(false);
  RawClient client(path_);
  client.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  const Answer kept = desk_.next();
  RawClient dropped(path_);
  dropped.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  desk_.waitFor(1);
  RawClient answered(path_);
  answered.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  desk_.waitFor(2);
  const Answer waiting = desk_.next();
  desk_.next()({.status = 202});
  server_.reset();
  EXPECT_EQ(statusOf(answered.readResponse()), "HTTP/1.1 202 Accepted");
  for (RawClient* one : {&client, &dropped}) {
    const std::string response = one->readResponse();
    EXPECT_EQ(statusOf(response), "HTTP/1.1 503 Service Unavailable");
    EXPECT_NE(response.find("the run ends"), std::string::npos) << response;
    EXPECT_TRUE(one->closesWithin(seconds(60)));
  }
  kept({.body = "too late"});
  desk_.clear();
}

// With limits of its own, so that nobody waits a minute.
class LimitsTest : public testing::Test {
 protected:
  void start(const Limits& limits) {
    auto [socket, problem] = UnixSocket::listen(path_);
    ASSERT_NE(socket, nullptr) << problem;
    socket_ = std::move(socket);
    side_.mailbox = std::make_shared<Mailbox>(context_);
    side_.of_this_user = true;
    side_.limits = limits;
    side_.routes.post("/late",
                      [this](const Request&, Answer answer) { desk_.take(std::move(answer)); });
    side_.routes.get("/big", [](const Request&) {
      return Response{.body = std::string(std::size_t{4} << 20, 'x')};
    });
    side_.routes.get("/small", [](const Request&) { return Response{.body = "small"}; });
    listener_.emplace(context_, AF_UNIX, socket_->release(), side_);
    listener_->accept();
    thread_ = std::thread([this] {
      side_.mailbox->open();
      for (;;) {  // as the server does
        try {
          context_.run();
          return;
        } catch (const std::exception&) {
        }
      }
    });
  }
  void TearDown() override {
    context_.stop();
    thread_.join();
    side_.mailbox->close();
    side_.questions.clear();
    listener_.reset();
  }

  PrivateFolder folder_;
  const std::string path_ = folder_ / "job/rank-0.sock";
  Desk desk_;
  Side side_;
  boost::asio::io_context context_{1};
  std::unique_ptr<UnixSocket> socket_;
  std::optional<Listener> listener_;
  std::thread thread_;
};

TEST_F(LimitsTest, AnAnswerThatDoesNotComeIsA504) {
  start({.late_answer = milliseconds(50)});
  RawClient client(path_);
  client.send("POST /late HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  const Answer answer = desk_.next();
  EXPECT_EQ(statusOf(client.readResponse()), "HTTP/1.1 504 Gateway Timeout");
  answer({.body = "too late"});
  client.send("GET /small HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(bodyOf(client.readResponse()), "small");
}

// Whichever allocation fails while a request is answered, its place is free afterwards.
TEST_F(LimitsTest, WithoutMemoryForOneRequestItsPlaceIsFree) {
  start({});
  const auto onServersThread = [this](auto work) {
    return boost::asio::post(context_, boost::asio::use_future(std::move(work))).get();
  };
  bool fails = true;
  for (int number = 1; fails; ++number) {
    RawClient client(path_);
    client.send("GET /small HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_EQ(bodyOf(client.readResponse()), "small");
    onServersThread([number] { failAllocation(number); });
    client.send("GET /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    // Where an allocation fails the connection may stay open.
    for (int i = 0; i < 120 && !client.closesWithin(milliseconds(500)) && !hasFailed(); ++i) {
    }
    const auto [failed, waited_for] =
        onServersThread([this] { return std::pair(endFailing(), side_.questions.size()); });
    ASSERT_EQ(waited_for, 0U) << "after allocation " << number;
    fails = failed;
  }
}

// Of 4 MiB answers that nobody reads three are kept, 12 MiB, then small ones only.
TEST_F(LimitsTest, AnswersThatNobodyTakesAreBounded) {
  // With so long a limit no slow client is closed before the next ones have asked.
  start({.unsent_bytes = std::size_t{12} << 20, .response = std::chrono::minutes(10)});
  std::vector<RawClient> clients;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(path_);
    clients.back().send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    // The answer has begun, so it is counted.
    EXPECT_TRUE(clients.back().receivesWithin(seconds(60)));
  }
  EXPECT_EQ(statusOf(fetch(path_, "GET /big")), "HTTP/1.1 503 Service Unavailable");
  clients.pop_back();
  std::string status;
  for (int attempt = 0; attempt < 3000 && status != "HTTP/1.1 200 OK"; ++attempt) {
    status = statusOf(fetch(path_, "GET /big"));
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_EQ(status, "HTTP/1.1 200 OK");
}

TEST_F(LimitsTest, AClientThatNeverReadsIsClosed) {
  start({.response = milliseconds(100)});
  RawClient client(path_);
  client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(client.hangsUpWithin(seconds(60)));
  EXPECT_LT(client.readAll().size(), std::size_t{4} << 20);
}

}  // namespace
}  // namespace ebbtide::metrics::test
