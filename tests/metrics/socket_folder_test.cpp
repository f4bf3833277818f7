#include "ebbtide/metrics/socket_folder.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace ebbtide::metrics {
namespace {

// With that XDG_RUNTIME_DIR; nullptr: with none.
std::string folderWith(const char* runtime, const std::string& given = "") {
  const char* variable = "XDG_RUNTIME_DIR";
  const char* set = std::getenv(variable);
  const std::string before = set == nullptr ? "" : set;
  runtime == nullptr ? ::unsetenv(variable) : ::setenv(variable, runtime, 1);
  std::string folder = socketFolder(given);
  before.empty() ? ::unsetenv(variable) : ::setenv(variable, before.c_str(), 1);
  return folder;
}

TEST(SocketFolder, IsTheOneThatIsGiven) {
  const std::string here = std::filesystem::current_path().string();
  EXPECT_EQ(folderWith("/run/user/7", "/given"), "/given");
  EXPECT_EQ(folderWith("/run/user/7", "/given//sub/../"), "/given");
  EXPECT_EQ(folderWith("/run/user/7", "given/"), here + "/given");
  EXPECT_EQ(folderWith(nullptr, "/"), "/");
}

// "All paths set in these environment variables must be absolute. If an implementation encounters
// a relative path […] it should consider the path invalid and ignore it."
TEST(SocketFolder, IsElseInTheRuntimeFolderIfThatIsAbsolute) {
  const std::string of_user = "/tmp/ebbtide-" + std::to_string(::geteuid());
  EXPECT_EQ(folderWith("/run/user/7"), "/run/user/7/ebbtide");
  EXPECT_EQ(folderWith("/run/user/7/"), "/run/user/7/ebbtide");
  EXPECT_EQ(folderWith("run/user/7"), of_user);
  EXPECT_EQ(folderWith("./run"), of_user);
  EXPECT_EQ(folderWith(""), of_user);
  EXPECT_EQ(folderWith(nullptr), of_user);
}

TEST(SocketFolder, ARanksSocketNamesIt) {
  EXPECT_EQ(socketOfRank(7), "rank-7.sock");
  EXPECT_EQ(rankOfSocket("rank-7.sock"), 7);
  EXPECT_EQ(rankOfSocket(socketOfRank(4095)), 4095);
  for (const char* name : {"rank-.sock", "rank.sock", "rank-x.sock", "rank--1.sock", "rank-7",
                           "7.sock", "rank-99999999999.sock", "rank-7.sock ", ""}) {
    EXPECT_EQ(rankOfSocket(name), std::nullopt) << name;
  }
  EXPECT_EQ(rankNumber("12"), 12);
  EXPECT_EQ(rankNumber("1 "), std::nullopt);
}

}  // namespace
}  // namespace ebbtide::metrics
