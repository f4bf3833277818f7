#include "base/said_line.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

namespace ebbtide::plugin {
namespace {

// A socket of messages keeps each write apart.
TEST(SaidLine, IsOneWrite) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
  const int stderr_before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  const std::string text(3000, 'x');  // longer than any piece of stdio's
  sayLine(text);
  sayLine("");
  ::dup2(stderr_before, STDERR_FILENO);
  std::array<char, 4096> message{};
  const ssize_t bytes = ::recv(ends[0], message.data(), message.size(), MSG_DONTWAIT);
  ASSERT_EQ(bytes, 3001);
  EXPECT_EQ(std::string(message.data(), 3001), text + "\n");
  EXPECT_EQ(::recv(ends[0], message.data(), message.size(), MSG_DONTWAIT), 1);
  for (const int end : {ends[0], ends[1], stderr_before}) ::close(end);
}

}  // namespace
}  // namespace ebbtide::plugin
