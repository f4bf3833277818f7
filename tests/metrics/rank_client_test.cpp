// What asks the other ranks, on the test's own thread, against a socket that the test answers on.
#include "rank_client.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "private_folder.hpp"

namespace ebbtide::metrics::test {
namespace {

using std::chrono::seconds;

class RankClientTest : public testing::Test {
 protected:
  RankClientTest() : listening_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::listen(listening_, 200);
  }
  ~RankClientTest() override { ::close(listening_); }

  void ask() {
    client_.ask(path_, {.method = "GET", .path = "/metrics"}, seconds(60),
                [this](const Response& response) { statuses_.push_back(response.status); });
  }

  // As the server's thread does: what one handler throws ends nothing.
  void runUntilTold(std::size_t count) {
    const auto end = std::chrono::steady_clock::now() + seconds(60);
    while (statuses_.size() < count && std::chrono::steady_clock::now() < end) {
      try {
        context_.restart();
        if (context_.run_one_until(end) == 0) return;  // nothing is left to be done
      } catch (const std::exception&) {
      }
    }
  }

  // Takes the next question and says yes; the connection may be kept.
  int answerOne() {
    context_.restart();
    context_.poll();
    const int accepted = ::accept(listening_, nullptr, nullptr);
    char bytes[4096];
    EXPECT_GT(::recv(accepted, bytes, sizeof bytes, 0), 0);
    const std::string yes = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    EXPECT_EQ(::send(accepted, yes.data(), yes.size(), 0), static_cast<ssize_t>(yes.size()));
    return accepted;
  }

  PrivateFolder folder_;
  const std::string path_ = folder_ / "rank-1.sock";
  const int listening_;
  std::vector<int> statuses_;
  boost::asio::io_context context_{1};
  RankClient client_{context_};
};

// The rank closed the connection that was kept, and there is no descriptor for another.
TEST_F(RankClientTest, WithoutADescriptorForANewConnectionTheAnswerIsA503) {
  ask();
  const int accepted = answerOne();
  runUntilTold(1);
  ASSERT_EQ(statuses_, std::vector<int>{200});
  ::close(accepted);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  ask();
  runUntilTold(2);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(statuses_, (std::vector<int>{200, 503}));
}

// Of 150 questions 64 are asked at first, each over a connection of its own; each answer makes room
// for the next one, which takes a connection that is there. They are descriptors of the training
// process, whose limit is often 1,024.
TEST_F(RankClientTest, AsksAndKeepsAtMost64AtOnce) {
  const auto openDescriptors = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  const auto before = openDescriptors() + 3;  // the context's own: of epoll, events and timers
  for (int i = 0; i < 150; ++i) ask();
  context_.poll();
  EXPECT_EQ(openDescriptors() - before, 64);
  std::vector<pollfd> asked = {{.fd = listening_, .events = POLLIN, .revents = 0}};
  while (statuses_.size() < 150 && ::poll(asked.data(), asked.size(), 60'000) > 0) {
    if (asked.front().revents != 0)
      asked.push_back(
          {.fd = ::accept(listening_, nullptr, nullptr), .events = POLLIN, .revents = 0});
    for (std::size_t i = 1; i < asked.size(); ++i) {
      char bytes[4096];
      if ((asked[i].revents & POLLIN) == 0 || ::recv(asked[i].fd, bytes, sizeof bytes, 0) <= 0)
        continue;
      const std::string yes = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
      EXPECT_EQ(::send(asked[i].fd, yes.data(), yes.size(), 0), static_cast<ssize_t>(yes.size()));
    }
    context_.restart();
    context_.poll();
  }
  EXPECT_EQ(statuses_, std::vector<int>(150, 200));
  EXPECT_EQ(asked.size(), 1u + 64);
  for (std::size_t i = 1; i < asked.size(); ++i) ::close(asked[i].fd);
  EXPECT_EQ(openDescriptors() - before, 64);
}

// Who waits for a turn is told too: without a descriptor all of them at once, and none is lost.
TEST_F(RankClientTest, QuestionsThatFailLeaveTheirTurnToTheNextOnes) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 200; ++i) ask();
  runUntilTold(200);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(statuses_, std::vector<int>(200, 503));
}

}  // namespace
}  // namespace ebbtide::metrics::test
