#include "base/first_of_forks.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ebbtide::plugin {
namespace {

TEST(FirstOfForks, OneProcessIsToldOnce) {
  FirstOfForks first;
  EXPECT_TRUE(first.take());
  EXPECT_FALSE(first.take());
}

// Of the parent, two children and a child of each one alone, whichever asks first: here each ends
// before the next one is forked.
TEST(FirstOfForks, OneOfAllIsToldYes) {
  FirstOfForks first;
  int told = 0;
  for (int i = 0; i < 2; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      const int mine = first.take() ? 1 : 0;
      const pid_t grandchild = ::fork();
      if (grandchild == 0) ::_exit(first.take() ? 1 : 0);
      int status = 0;
      ::waitpid(grandchild, &status, 0);
      ::_exit(WIFEXITED(status) ? mine + WEXITSTATUS(status) : 100);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    told += WEXITSTATUS(status);
  }
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(first.take());
}

}  // namespace
}  // namespace ebbtide::plugin
