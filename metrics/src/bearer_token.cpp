#include "ebbtide/metrics/bearer_token.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ebbtide::metrics {
namespace {

constexpr std::size_t kFewest = 16;
constexpr std::size_t kMost = 512;
constexpr std::string_view kCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";

class File {
 public:
  // A FIFO without a writer would be waited for without O_NONBLOCK.
  explicit File(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Empty: the file may hold a secret of ours.
std::string whyNotOurs(int descriptor) {
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0) return std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return "it is not a regular file";
  if (status.st_uid != ::geteuid()) return "it belongs to another user";
  if ((status.st_mode & 077) != 0) return "others may read or write it (chmod 600 it)";
  return "";
}

// Empty: its characters and its length will do.
std::string whyNotToken(std::string_view token) {
  if (token.size() < kFewest || token.size() > kMost) {
    return "its token has not 16 to 512 characters";
  }
  if (token.find_first_not_of(kCharacters) != std::string_view::npos) {
    return "its token has characters other than A-Z a-z 0-9 - . _ ~ + / =";
  }
  return "";
}

}  // namespace

BearerTokenResult BearerToken::read(const std::string& path) {
  const File file(path);
  std::string why = whyNotOurs(file.descriptor());
  std::array<char, kMost + 3> bytes{};
  ssize_t count = 0;
  if (why.empty()) {
    count = ::read(file.descriptor(), bytes.data(), bytes.size());
    if (count < 0) why = std::strerror(errno);
  }
  std::string_view token(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (token.ends_with('\n')) token.remove_suffix(1);
  if (token.ends_with('\r')) token.remove_suffix(1);
  if (why.empty()) why = whyNotToken(token);
  if (why.empty()) return {BearerToken(std::string(token)), ""};
  return {std::nullopt, "the token file " + path + " is not used: " + why};
}

bool BearerToken::accepts(std::string_view authorization) const {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return false;
  for (std::size_t i = 0; i < kScheme.size(); ++i) {
    const char given = authorization[i];
    const char lowered = given >= 'A' && given <= 'Z' ? static_cast<char>(given + 32) : given;
    if (lowered != kScheme[i]) return false;
  }
  const std::string_view given = authorization.substr(kScheme.size());
  // Every given character is looked at, whatever those before were: the time depends on what was
  // sent alone. volatile, so that no compiler ends the loop early.
  volatile unsigned char different = given.size() == token_.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char ours = token_[i % token_.size()];
    different = static_cast<unsigned char>(different | (given[i] ^ ours));
  }
  return different == 0;
}

}  // namespace ebbtide::metrics
