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

Reply askOne(const std::string& bytes, std::chrono::milliseconds limit = 5s) {
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
                            5s)
                            .front();
    EXPECT_EQ(reply.status, 0);
    EXPECT_EQ(reply.why, "nobody listens there");
  }
}

// 300 is more than are asked at once; each tenth hangs, and holds up none of the others.
TEST(HttpClient, AsksManyAndWaitsForTheSlowBesideTheOthers) {
  const Folder folder;
  const WrongServer good(folder.path() + "/good", httpAnswer("[]"));
  const WrongServer hung(folder.path() + "/hung", "");
  std::vector<Question> questions;
  for (int i = 0; i < 300; ++i) {
    questions.push_back({.address = UnixAddress{folder.path() + (i % 10 == 3 ? "/hung" : "/good")},
                         .method = "GET",
                         .target = "/",
                         .body = "",
                         .token = ""});
  }
  const auto replies = ask(questions, 3s);
  ASSERT_EQ(replies.size(), 300U);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(replies[i].status, i % 10 == 3 ? 0 : 200) << i;
}

// Lets connections come until none has come for a while, then answers all that are there.
class GatheringServer {
 public:
  explicit GatheringServer(const std::string& path)
      : listening_(test::listenOn(path)), serving_([this] { serve(); }) {}
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
      pollfd waiting{listening_, POLLIN, 0};
      if (::poll(&waiting, 1, 300) > 0) {
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
      clients.clear();
    }
  }

  int listening_;
  std::atomic<bool> over_ = false;
  std::atomic<std::size_t> most_ = 0;
  std::thread serving_;
};

// As many as side.hpp has: the 9th change that waits for its answer would be refused.
TEST(HttpClient, AsksAServerForNoMoreThanItTakes) {
  for (const auto& [method, most] : {std::pair{"POST", 8U}, std::pair{"GET", 32U}}) {
    const Folder folder;
    const GatheringServer server(folder.path() + "/s");
    std::vector<Question> questions(2 * most + 1, {.address = UnixAddress{folder.path() + "/s"},
                                                   .method = method,
                                                   .target = "/",
                                                   .body = "",
                                                   .token = ""});
    for (const Reply& reply : ask(questions, 30s)) EXPECT_EQ(reply.status, 200) << reply.why;
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
    EXPECT_EQ(ask(questions, 30s).front().status, 200);
  }
  std::filesystem::remove(folder.path() + "/s");
  const WrongServer server(
      folder.path() + "/s",
      "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 9\r\nContent-Length: 2\r\n\r\n{}");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ask(questions, 8s).front().status, 429);  // no time for another try
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
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
