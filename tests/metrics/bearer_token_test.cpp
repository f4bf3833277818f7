#include "ebbtide/metrics/bearer_token.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>

#include "private_folder.hpp"

namespace ebbtide::metrics::test {
namespace {

const std::string kToken = "0123456789abcdef";  // 16 characters, the fewest

class BearerTokenTest : public testing::Test {
 protected:
  std::optional<BearerToken> read(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
    return readFile(path_);
  }
  std::optional<BearerToken> readFile(const std::string& path) {
    auto [token, problem] = BearerToken::read(path);
    EXPECT_EQ(token.has_value(), problem.empty());
    error_ = std::move(problem);
    return std::move(token);
  }

  PrivateFolder folder_;
  const std::string path_ = folder_ / "token";
  std::string error_;
};

TEST_F(BearerTokenTest, AcceptsItsTokenOnly) {
  const auto token = read(kToken + "\n");
  ASSERT_TRUE(token) << error_;
  for (const char* scheme : {"Bearer ", "bearer ", "BEARER "}) {
    EXPECT_TRUE(token->accepts(scheme + kToken)) << scheme;
  }
  for (const std::string& given :
       {std::string(), std::string("Bearer"), std::string("Bearer "), kToken, "Basic " + kToken,
        "Bearer  " + kToken, "Bearer " + kToken + "0", "Bearer " + kToken + kToken,
        "Bearer " + kToken.substr(1), "Bearer " + kToken.substr(0, 15), "Bearer" + kToken,
        std::string("Bearer 0123456789abcdeF"), std::string("Bearer \0", 8) + kToken}) {
    EXPECT_FALSE(token->accepts(given)) << given;
  }
}

TEST_F(BearerTokenTest, TheFileMustBeThisUsersAlone) {
  for (const mode_t mode : {0640, 0604, 0660, 0777}) {
    EXPECT_FALSE(read(kToken, mode)) << mode;
    EXPECT_NE(error_.find("others may"), std::string::npos) << error_;
  }
  EXPECT_TRUE(read(kToken, 0400));
  EXPECT_FALSE(readFile(folder_ / "nothing"));
  EXPECT_NE(error_.find("No such file"), std::string::npos) << error_;
  EXPECT_FALSE(readFile(folder_.path()));
  EXPECT_NE(error_.find("not a regular file"), std::string::npos) << error_;
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(readFile(pipe));  // and is not waited for
  EXPECT_NE(error_.find("not a regular file"), std::string::npos) << error_;
}

TEST_F(BearerTokenTest, TheFileOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  read(kToken);
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(readFile(path_));
  EXPECT_NE(error_.find("another user"), std::string::npos) << error_;
}

TEST_F(BearerTokenTest, ATokenThatIsNoneIsRefusedAndNotQuoted) {
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("secret"), "two secrets " + kToken,
        kToken + "\n" + kToken + "\n", std::string(513, 's'), kToken + "\x01"}) {
    EXPECT_FALSE(read(text)) << text;
    EXPECT_EQ(error_.find("secret"), std::string::npos) << error_;
    EXPECT_NE(error_.find(path_), std::string::npos) << error_;
  }
  EXPECT_TRUE(read(std::string(512, 's')));
  EXPECT_TRUE(read(kToken + "\r\n"));
}

}  // namespace
}  // namespace ebbtide::metrics::test
