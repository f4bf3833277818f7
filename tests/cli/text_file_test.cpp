#include "text_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "wrong_server.hpp"

namespace ebbtide::cli {
namespace {

TEST(TextFile, IsReadAsItWasWritten) {
  const test::Folder folder;
  const std::string path = folder.path() + "/plan.json";
  writeText(path, "first");
  writeText(path, "{}\n");
  EXPECT_EQ(readText(path), "{}\n");
}

// A disk that takes 4 bytes more, as far as this process is concerned.
TEST(TextFile, AFullDiskLeavesWhatWasThere) {
  const test::Folder folder;
  const std::string path = folder.path() + "/plan.json";
  writeText(path, "old");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit four{4, 4};
    ::setrlimit(RLIMIT_FSIZE, &four);
    try {
      writeText(path, "longer than that");
    } catch (const std::invalid_argument& error) {
      ::_exit(error.what() == "cannot write " + path + ": File too large" ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(readText(path), "old");
  const std::filesystem::directory_iterator files(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST(TextFile, NamesWhatCannotBeRead) {
  const test::Folder folder;
  EXPECT_THROW(readText(folder.path()), std::invalid_argument);
  EXPECT_THROW(readText(folder.path() + "/missing"), std::invalid_argument);
}

}  // namespace
}  // namespace ebbtide::cli
