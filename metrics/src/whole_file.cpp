#include "ebbtide/metrics/whole_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

namespace ebbtide::metrics {
namespace {

constexpr int kMostAttempts = 1000;  // to find a name that is free

// A link counts where nobody but the user and the system can have made it.
bool isWrittenAsItIs(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return false;
  if (S_ISLNK(status.st_mode)) return status.st_uid == ::geteuid() || status.st_uid == 0;
  return !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

// Of this process and no other file of its: a killed one of its number may have left something.
std::string besideOf(const std::string& path) {
  static std::atomic<unsigned> next{0};
  return path + '.' + std::to_string(::getpid()) + '-' + std::to_string(next++) + ".tmp";
}

}  // namespace

WholeFile::WholeFile(std::string path, mode_t mode) : path_(std::move(path)) {
  if (isWrittenAsItIs(path_)) {
    openAsItIs(mode);
  } else {
    openBeside(mode);
  }
}

WholeFile::~WholeFile() {
  if (file_ >= 0) ::close(file_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

// A pipe that nobody reads is an error, not a wait.
void WholeFile::openAsItIs(mode_t mode) {
  file_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode);
  if (file_ < 0) return note();
  const int flags = ::fcntl(file_, F_GETFL);
  if (flags < 0 || ::fcntl(file_, F_SETFL, flags & ~O_NONBLOCK) != 0) note();
}

void WholeFile::openBeside(mode_t mode) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    std::string beside = besideOf(path_);
    file_ = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file_ >= 0) {
      beside_ = std::move(beside);
      return;
    }
    if (errno != EEXIST) break;
  }
  note();
}

void WholeFile::note() noexcept {
  if (error_ == 0) error_ = errno != 0 ? errno : EIO;
}

void WholeFile::write(std::string_view bytes) noexcept {
  while (!failed() && !bytes.empty()) {
    errno = 0;
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return note();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Some disks are found full only by close().
bool WholeFile::keep() noexcept {
  if (file_ >= 0 && ::close(std::exchange(file_, -1)) != 0) note();
  if (failed()) return false;
  if (beside_.empty()) return true;  // written as it is
  if (::rename(beside_.c_str(), path_.c_str()) != 0) {
    note();
    return false;
  }
  beside_.clear();
  return true;
}

std::string WholeFile::reason() const {
  return std::generic_category().message(error_);
}

std::string WholeFile::error() const {
  return path_ + ": " + reason();
}

}  // namespace ebbtide::metrics
