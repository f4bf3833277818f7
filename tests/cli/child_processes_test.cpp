// The children of this process, told by /proc while others come and go.
#include "launch/child_processes.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace ebbtide::cli {
namespace {

// A process that ends between open() and read() of its file is an error of the read.
TEST(ChildProcesses, AreToldWhileOthersEnd) {
  const pid_t breeder = ::fork();
  if (breeder == 0) {
    ::alarm(60);
    for (int alive = 0;;) {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(0);
      if (++alive < 200) continue;
      for (; alive > 0; --alive) ::wait(nullptr);
    }
  }
  for (int look = 0; look < 2000; ++look) {
    const auto children = childProcesses();
    ASSERT_EQ(std::count(children.begin(), children.end(), breeder), 1) << look;
  }
  ::kill(breeder, SIGKILL);
  ::waitpid(breeder, nullptr, 0);
}

}  // namespace
}  // namespace ebbtide::cli
