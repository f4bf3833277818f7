#include "config/rank_socket.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace ebbtide::plugin {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

// Sets variables while it lives.
class Environment {
 public:
  explicit Environment(const Variables& variables) {
    for (const char* name : {"EBBTIDE_JOB_ID", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_PORT",
                             "XDG_RUNTIME_DIR"}) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? "" : value);
      ::unsetenv(name);
    }
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST(RankSocket, TheJobIsNamedByTheFirstThatNamesIt) {
  {
    const Environment all({{"EBBTIDE_JOB_ID", "mine"},
                           {"TORCHELASTIC_RUN_ID", "elastic"},
                           {"SLURM_JOB_ID", "77"},
                           {"MASTER_PORT", "29500"}});
    EXPECT_EQ(RankSocket::jobIdFromEnvironment(), "mine");
  }
  {  // torchrun's word for a job without a name
    const Environment slurm(
        {{"TORCHELASTIC_RUN_ID", "none"}, {"SLURM_JOB_ID", "77"}, {"MASTER_PORT", "29500"}});
    EXPECT_EQ(RankSocket::jobIdFromEnvironment(), "77");
  }
  {
    const Environment port({{"TORCHELASTIC_RUN_ID", "none"}, {"MASTER_PORT", "29500"}});
    EXPECT_EQ(RankSocket::jobIdFromEnvironment(), "port-29500");
  }
  const Environment none({});
  EXPECT_TRUE(RankSocket::jobIdFromEnvironment().starts_with("pid-"));
}

TEST(RankSocket, AJobsNameIsAFoldersName) {
  EXPECT_EQ(RankSocket::jobIdOf("a/b c\nd"), "a_b_c_d");
  EXPECT_EQ(RankSocket::jobIdOf(".."), "__");
  EXPECT_EQ(RankSocket::jobIdOf("."), "_");
  EXPECT_EQ(RankSocket::jobIdOf("..."), "...");
  EXPECT_EQ(RankSocket::jobIdOf(std::string(100, 'x')), std::string(64, 'x'));
}

TEST(RankSocket, LiesInTheJobsFolder) {
  const Environment runtime(Variables{{"XDG_RUNTIME_DIR", "/run/user/7"}});
  const RankSocket given("/sockets", "job", 3);
  EXPECT_EQ(given.folder(), "/sockets");
  EXPECT_EQ(given.jobFolder(), "/sockets/job");
  EXPECT_EQ(given.path(), "/sockets/job/rank-3.sock");
  EXPECT_EQ(RankSocket("", "job", 0).path(), "/run/user/7/ebbtide/job/rank-0.sock");
}

TEST(RankSocket, WithoutARuntimeFolderItsFolderHasTheUsersNumber) {
  const Environment relative(Variables{{"XDG_RUNTIME_DIR", "not/absolute"}});
  EXPECT_TRUE(RankSocket("", "job", 0).path().starts_with("/tmp/ebbtide-"));
}

}  // namespace
}  // namespace ebbtide::plugin
