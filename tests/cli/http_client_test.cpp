#include "live/http_client.hpp"

#include <gtest/gtest.h>

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
