#include "live/http_client.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>

#include "wrong_server.hpp"

namespace ebbtide::cli {
namespace {

using namespace std::chrono_literals;
using test::Folder;
using test::httpAnswer;
using test::WrongServer;

constexpr std::chrono::milliseconds kEnough = 2min;  // for any answer, on a busy machine too

Reply askOne(const std::string& bytes, std::chrono::milliseconds limit = kEnough) {
  const Folder folder;
  const WrongServer server(folder.path() + "/s", bytes);
  return ask({{.address = UnixAddress{folder.path() + "/s"},
               .method = "GET",
               .target = "/",
               .body = "",
               .token = ""}},
             limit)
      .front();
}

TEST(HttpClient, ReadsAnAnswer) {
  const Reply reply = askOne(httpAnswer("{}", "501 Not Implemented"));
  EXPECT_EQ(reply.status, 501);
  EXPECT_EQ(reply.body, "{}");
}

TEST(HttpClient, SaysWhatIsWrongWithAnAnswer) {
  EXPECT_EQ(askOne("SSH-2.0-OpenSSH\r\n\r\n").why, "what answers there does not speak HTTP");
  EXPECT_EQ(askOne("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"rank\":").why,
            "the connection was closed before an answer had come");
  EXPECT_EQ(askOne("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{").why,
            "the answer is larger than 64 MiB");
  EXPECT_EQ(askOne("", 100ms).why, "no answer within 0.1 s");
}

TEST(HttpClient, SaysThatNobodyListens) {
  const Folder folder;
  test::leaveDeadSocket(folder.path() + "/dead");
  for (const char* name : {"/dead", "/none"}) {
    const Reply reply = ask({{.address = UnixAddress{folder.path() + name},
                              .method = "GET",
                              .target = "/",
                              .body = "",
                              .token = ""}},
                            kEnough)
                            .front();
    EXPECT_EQ(reply.status, 0);
    EXPECT_EQ(reply.why, "nobody listens there");
  }
}

// 300 questions are more than are asked at once. Each tenth goes to a server that takes no
// connection, and holds up no other question. That server goes once the 270 others have been
// answered.
TEST(HttpClient, AsksManyAndWaitsForTheSlowBesideTheOthers) {
  const Folder folder;
  const WrongServer good(folder.path() + "/good", httpAnswer("[]"));
  const int hung = test::listenOn(folder.path() + "/hung");
  std::vector<Question> questions;
  for (int i = 0; i < 300; ++i) {
    questions.push_back({.address = UnixAddress{folder.path() + (i % 10 == 3 ? "/hung" : "/good")},
                         .method = "GET",
                         .target = "/",
                         .body = "",
                         .token = ""});
  }
  std::thread ending([&] {
    const auto latest = std::chrono::steady_clock::now() + kEnough;
    while (good.answered() < 270 && std::chrono::steady_clock::now() < latest)
      std::this_thread::sleep_for(1ms);
    EXPECT_EQ(good.answered(), 270);
    ::close(hung);
  });
  const auto replies = ask(questions, 1h);
  ending.join();
  ASSERT_EQ(replies.size(), 300U);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(replies[i].status, i % 10 == 3 ? 0 : 200) << i;
}

// Waits for `at_once` connections; at the end for those that are left of `total`. Once no further
// one comes for a while, it answers all that are there.
class GatheringServer {
 public:
  GatheringServer(const std::string& path, std::size_t at_once, std::size_t total)
      : at_once_(at_once),
        left_(total),
        listening_(test::listenOn(path)),
        serving_([this] { serve(); }) {}
  ~GatheringServer() {
    over_ = true;
    serving_.join();
    ::close(listening_);
  }
  GatheringServer(const GatheringServer&) = delete;
  GatheringServer& operator=(const GatheringServer&) = delete;
  std::size_t most() const { return most_; }

 private:
  void serve() {
    std::vector<int> clients;
    while (!over_) {
      const bool expected_are_there = clients.size() >= std::min(at_once_, left_);
      pollfd waiting{listening_, POLLIN, 0};
      if (::poll(&waiting, 1, expected_are_there ? 300 : 60'000) > 0) {
        clients.push_back(::accept(listening_, nullptr, nullptr));
        most_ = std::max(most_.load(), clients.size());
        continue;
      }
      const std::string bytes = httpAnswer("{}");
      for (const int client : clients) {
        ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        ::shutdown(client, SHUT_WR);
        std::array<char, 4096> request;
        while (::recv(client, request.data(), request.size(), 0) > 0) {
        }
        ::close(client);
      }
      left_ -= clients.size();
      clients.clear();
    }
  }

  const std::size_t at_once_;
  std::size_t left_;  // used by the thread alone
  int listening_;
  std::atomic<bool> over_ = false;
  std::atomic<std::size_t> most_ = 0;
  std::thread serving_;
};

// As many as side.hpp has: the 9th change that waits for its answer would be refused.
TEST(HttpClient, AsksAServerForNoMoreThanItTakes) {
  for (const auto& [method, most] : {std::pair{"POST", 8U}, std::pair{"GET", 32U}}) {
    const Folder folder;
    const GatheringServer server(folder.path() + "/s", most, 2 * most + 1);
    std::vector<Question> questions(2 * most + 1, {.address = UnixAddress{folder.path() + "/s"},
                                                   .method = method,
                                                   .target = "/",
                                                   .body = "",
                                                   .token = ""});
    for (const Reply& reply : ask(questions, kEnough)) EXPECT_EQ(reply.status, 200) << reply.why;
    EXPECT_EQ(server.most(), most) << method;
  }
}

TEST(HttpClient, AsksABusyServerAgain) {
  const std::string busy =
      "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}";
  const Folder folder;
  const std::vector<Question> questions(1, {.address = UnixAddress{folder.path() + "/s"},
                                            .method = "POST",
                                            .target = "/",
                                            .body = "",
                                            .token = ""});
  {
    const WrongServer server(folder.path() + "/s", httpAnswer("{}"), {busy, busy});
    EXPECT_EQ(ask(questions, kEnough).front().status, 200);
  }
  std::filesystem::remove(folder.path() + "/s");
  const WrongServer server(
      folder.path() + "/s",
      "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 9\r\nContent-Length: 2\r\n\r\n{}");
  // The next try would come after 5 s, the longest pause: no time is left for it.
  EXPECT_EQ(ask(questions, 5s).front().status, 429);
  EXPECT_EQ(server.answered(), 1);
}

TEST(HttpClient, StopsWhenItIsTold) {
  const Folder folder;
  const WrongServer hung(folder.path() + "/s", "");
  std::stop_source stop;
  std::thread stopping([&] {
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  // Without the stop this would be an hour.
  const Reply reply = ask({{.address = UnixAddress{folder.path() + "/s"},
                            .method = "GET",
                            .target = "/",
                            .body = "",
                            .token = ""}},
                          1h, stop.get_token())
                          .front();
  stopping.join();
  EXPECT_EQ(reply.status, 0);
}

TEST(HttpClient, ReadsEndpoints) {
  EXPECT_EQ(parseEndpoint("node7:9464").host, "node7");
  EXPECT_EQ(parseEndpoint("[::1]:80").host, "::1");
  for (const char* text : {"", "node7", "node7:", ":80", "node7:0", "node7:65536", "node7:8x",
                           "::1:80", "[]:80", "a b:80", "a\r\nX: y:80"}) {
    EXPECT_THROW(parseEndpoint(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace ebbtide::cli
