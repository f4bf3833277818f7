#include "ebbtide/metrics/whole_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ebbtide/metrics/held_signal.hpp"

namespace ebbtide::metrics {
namespace {

namespace fs = std::filesystem;

constexpr int kMostAttempts = 1000;  // to find a name that is free

constexpr int kMostLinks = 40;  // one after the other, as Linux has it

// Nobody but the user and the system can have made it.
bool isOurs(const struct stat& status) {
  return status.st_uid == ::geteuid() || status.st_uid == 0;
}

// A link there stands for a file that some process has open: its text need not be a name.
bool isInProc(const fs::path& path) {
  const fs::path folder = path.parent_path();
  struct statfs status {};
  return ::statfs(folder.empty() ? "." : folder.c_str(), &status) == 0 &&
         status.f_type == PROC_SUPER_MAGIC;
}

// Of this process and no other file of its: a killed one of its number may have left something.
std::string besideOf(const std::string& path) {
  static std::atomic<unsigned> next{0};
  return path + '.' + std::to_string(::getpid()) + '-' + std::to_string(next++) + ".tmp";
}

}  // namespace

WholeFile::WholeFile(std::string path, mode_t mode) : path_(std::move(path)), place_(path_) {
  openWhereLinksLead(mode);
}

WholeFile::~WholeFile() {
  if (file_ >= 0) ::close(file_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

void WholeFile::openWhereLinksLead(mode_t mode) {
  for (int links = 0; links <= kMostLinks; ++links) {
    struct stat status {};
    if (::lstat(place_.c_str(), &status) != 0) return openBeside(mode, nullptr);
    if (S_ISREG(status.st_mode)) {
      const mode_t bits = status.st_mode & 0777;
      const bool stay = mode == kAsUsual && status.st_uid == ::geteuid();
      return openBeside(mode, stay ? &bits : nullptr);
    }
    if (S_ISLNK(status.st_mode) && isInProc(place_)) return openAsProcSays();
    if (S_ISDIR(status.st_mode) || !isOurs(status)) return openBeside(mode, nullptr);
    if (!S_ISLNK(status.st_mode)) return openAsItIs(status);
    std::error_code problem;
    const fs::path target = fs::read_symlink(place_, problem);
    errno = problem.value();
    if (problem) return note();
    place_ = (fs::path(place_).parent_path() / target).string();
  }
  errno = ELOOP;
  note();
}

// What has the name by now may be another's.
void WholeFile::openAsItIs(const struct stat& seen) {
  openForWriting(O_NOFOLLOW);
  struct stat opened {};
  if (failed() || (::fstat(file_, &opened) == 0 && opened.st_dev == seen.st_dev &&
                   opened.st_ino == seen.st_ino)) {
    return;
  }
  errno = ESTALE;
  note();
}

// It may be the log of a program whose output goes to a file: what is there stays.
void WholeFile::openAsProcSays() {
  openForWriting(O_APPEND);
}

// A pipe that nobody reads is an error, not a wait.
void WholeFile::openForWriting(int flags) {
  file_ = ::open(place_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
  if (file_ < 0) return note();
  struct stat status {};
  pipe_ = ::fstat(file_, &status) == 0 && S_ISFIFO(status.st_mode);
  if (pipe_) return;  // nor is one that is full
  const int now = ::fcntl(file_, F_GETFL);
  if (now < 0 || ::fcntl(file_, F_SETFL, now & ~O_NONBLOCK) != 0) note();
}

// `bits`: the file's permissions, whatever the umask. It never has more permissions than at its
// end: one who opened it meanwhile could read what comes.
void WholeFile::openBeside(mode_t mode, const mode_t* bits) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    std::string beside = besideOf(place_);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    file_ = ::open(beside.c_str(), flags, bits != nullptr ? *bits : mode);
    if (file_ >= 0) {
      beside_ = std::move(beside);
      if (bits != nullptr) static_cast<void>(::fchmod(file_, *bits));  // not every disk has them
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
    const ssize_t written = writeSome(bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN && waitForReader()) continue;
    if (written <= 0) return note();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

ssize_t WholeFile::writeSome(std::string_view bytes) noexcept {
  HeldSignal held(pipe_ ? SIGPIPE : SIGXFSZ);
  const ssize_t written = ::write(file_, bytes.data(), bytes.size());
  if (written < 0 && errno == (pipe_ ? EPIPE : EFBIG)) held.take();
  return written;
}

// False, with errno: it has been waited for long enough.
bool WholeFile::waitForReader() noexcept {
  using Clock = std::chrono::steady_clock;
  if (!pipe_ || patience_.count() <= 0) return false;
  const Clock::time_point from = Clock::now();
  pollfd reader = {.fd = file_, .events = POLLOUT, .revents = 0};
  ::poll(&reader, 1, static_cast<int>(patience_.count()));
  const auto waited = std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - from);
  patience_ -= waited;
  errno = EAGAIN;
  return true;
}

// A name that something is mounted on cannot be given to another file.
void WholeFile::copyToPlace() noexcept {
  const int from = ::open(beside_.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (from < 0) return note();
  file_ = ::open(place_.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
  if (file_ < 0) note();
  std::array<char, 16384> piece;
  while (!failed()) {
    const ssize_t got = ::read(from, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) note();
    if (got <= 0) break;
    write({piece.data(), static_cast<std::size_t>(got)});
  }
  ::close(from);
  if (file_ >= 0 && ::close(std::exchange(file_, -1)) != 0) note();
}

// Some disks are found full only by close().
bool WholeFile::keep() noexcept {
  if (file_ >= 0 && ::close(std::exchange(file_, -1)) != 0) note();
  if (failed()) return false;
  if (beside_.empty()) return true;  // written as it is
  if (::rename(beside_.c_str(), place_.c_str()) == 0) {
    beside_.clear();
    return true;
  }
  if (errno != EBUSY) {
    note();
    return false;
  }
  copyToPlace();
  return !failed();
}

std::string WholeFile::reason() const {
  return std::generic_category().message(error_);
}

std::string WholeFile::error() const {
  return path_ + ": " + reason();
}

}  // namespace ebbtide::metrics
