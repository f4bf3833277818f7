#include "live/found_jobs.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "wrong_server.hpp"

namespace ebbtide::cli {
namespace {

using test::Folder;
using test::leaveDeadSocket;
using test::WrongServer;

TEST(FoundJobs, AreNoneWhereThereIsNone) {
  EXPECT_TRUE(findJobs("/nonexistent/ebbtide").empty());
}

TEST(FoundJobs, TellDeadSocketsFromLiveOnes) {
  const Folder folder;
  const std::string job = folder.path() + "/job-a";
  ::mkdir(job.c_str(), 0700);
  const WrongServer tenth(job + "/rank-10.sock", "x"), second(job + "/rank-2.sock", "x");
  leaveDeadSocket(job + "/rank-1.sock");
  std::ofstream(job + "/rank-7.sock") << "no socket";
  for (const char* name : {"/rank-.sock", "/rank-x.sock", "/rank--1.sock", "/other", "/rank-3",
                           "/rank-99999999999.sock", "/rank.sock"}) {
    std::ofstream(job + name) << "";
  }
  const auto jobs = findJobs(folder.path());
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].id, "job-a");
  ASSERT_EQ(jobs[0].ranks.size(), 2U);  // by number, not by letters
  EXPECT_EQ(jobs[0].ranks[0].rank, 2);
  EXPECT_EQ(jobs[0].ranks[1].rank, 10);
  EXPECT_EQ(jobs[0].dead, (std::vector<int>{1, 7}));
}

TEST(FoundJobs, AreInTheFolderOfTheEnvironment) {
  ::setenv("EBBTIDE_SOCKET_DIR", "/given", 1);
  EXPECT_EQ(socketFolder(), "/given");
  ::setenv("EBBTIDE_SOCKET_DIR", "given/", 1);  // as a rank that is started here has it
  EXPECT_EQ(socketFolder(), std::filesystem::current_path().string() + "/given");
  ::unsetenv("EBBTIDE_SOCKET_DIR");
  ::setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  EXPECT_EQ(socketFolder(), "/run/user/7/ebbtide");
  ::setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
  EXPECT_EQ(socketFolder(), "/tmp/ebbtide-" + std::to_string(::geteuid()));
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(socketFolder(), "/tmp/ebbtide-" + std::to_string(::geteuid()));
}

}  // namespace
}  // namespace ebbtide::cli
