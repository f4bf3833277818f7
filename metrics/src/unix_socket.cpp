#include "unix_socket.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "ebbtide/metrics/socket_folder.hpp"

namespace ebbtide::metrics {
namespace {

constexpr int kBacklog = 512;
constexpr int kMostJobs = 100;  // that are looked at: the start of a run waits for it
constexpr std::chrono::milliseconds kLockPause{10};
// Then it goes on without the lock, since the first step waits: its holder is stuck, or the machine
// is busy.
constexpr int kOpenAttempts = 100;
constexpr int kRemoveAttempts = 10;  // the trainer waits for it to end
constexpr int kCleanAttempts = 100;  // then nothing is removed

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

// A file system without locks is taken as locked.
class FolderLock {
 public:
  FolderLock(const std::string& folder, int attempts)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      held_ = --attempts > 0;
      if (!held_) return;
      std::this_thread::sleep_for(kLockPause);
    }
  }
  // Not left to the closing: a child forked meanwhile has a copy of the descriptor.
  ~FolderLock() { ::flock(folder_.get(), LOCK_UN); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // False: another process held the lock at each attempt.
  bool held() const { return held_; }

 private:
  Descriptor folder_;
  bool held_ = true;
};

// Empty: the folder is there, and this user's alone.
std::string whyNotOurFolder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return "cannot make the folder " + folder + ": " + std::strerror(errno);
  }
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0) return folder + ": " + std::strerror(errno);
  if (!S_ISDIR(status.st_mode)) return folder + " is not a folder";
  if (status.st_uid != ::geteuid()) return "the folder " + folder + " belongs to another user";
  if ((status.st_mode & 077) != 0) {
    return "the folder " + folder + " is open to other users (chmod 700 it)";
  }
  return "";
}

std::optional<sockaddr_un> addressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

// 0, or why nobody answers there.
int connectError(const sockaddr_un& address) {
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* where = reinterpret_cast<const sockaddr*>(&address);
  return ::connect(probe.get(), where, sizeof address) == 0 ? 0 : errno;
}

// A full queue of a live process answers EAGAIN.
bool somebodyListens(const sockaddr_un& address) {
  const int error = connectError(address);
  return error == 0 || error == EAGAIN || error == EINPROGRESS;
}

// A name in the same folder that no other socket has.
std::string hiddenName() {
  static std::atomic<int> names{0};
  return "." + std::to_string(::getpid()) + "-" + std::to_string(names++);
}

// Has the socket such a name, of a process that was killed before it gave it a rank's?
bool isLeftHidden(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  pid_t process = 0;
  int number = 0;
  const char* const end = name.data() + name.size();
  const char* at = name.starts_with('.') ? name.data() + 1 : end;
  auto read = std::from_chars(at, end, process);
  if (read.ec != std::errc() || read.ptr == end || *read.ptr != '-') return false;
  read = std::from_chars(read.ptr + 1, end, number);
  struct stat status {};
  return read.ec == std::errc() && read.ptr == end && process > 0 &&
         ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode) &&
         ::kill(process, 0) != 0 && errno == ESRCH;
}

// With the lock on the folder above it. Of another container a live process may seem gone: it has
// the lock, or makes its socket once more.
void removeDeadSockets(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    const auto address = addressOf(path);
    if (isLeftHidden(entry.path())) ::unlink(path.c_str());
    if (!address || !rankOfSocket(entry.path().filename().string())) continue;
    if (connectError(*address) == ECONNREFUSED) ::unlink(path.c_str());
  }
}

// `replaces`: a dead socket has the name. Else the name was free. Another process without the lock
// may have taken it since: then this fails, where the file system can tell.
bool giveName(const std::string& hidden, const std::string& path, bool replaces) {
  const unsigned flags = replaces ? 0 : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, hidden.c_str(), AT_FDCWD, path.c_str(), flags) == 0) return true;
  return errno != EEXIST && ::rename(hidden.c_str(), path.c_str()) == 0;
}

struct OpenSocket {
  int descriptor = -1;
  int error = 0;             // errno, where `descriptor` is -1
  std::string problem = {};  // one sentence, where `descriptor` is -1
};

// Bound under `hidden`, renamed to `path`.
OpenSocket openSocket(const std::string& path, const std::string& hidden, bool replaces) {
  const auto address = addressOf(hidden);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) {
    const int why = errno;
    return {
        .error = why,
        .problem = "cannot listen on " + path + ": no socket can be made: " + std::strerror(why)};
  }
  ::unlink(hidden.c_str());  // of a process that died here, and had our number
  // Its mode before it can be reached: the folder is closed to others anyway.
  const bool listens =
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0 &&
      ::chmod(hidden.c_str(), 0600) == 0 && ::listen(socket.get(), kBacklog) == 0 &&
      giveName(hidden, path, replaces);
  if (listens) return {.descriptor = socket.release()};
  const int why = errno;
  ::unlink(hidden.c_str());
  const char* const words = why == EEXIST ? "another process listens there" : std::strerror(why);
  return {.error = why, .problem = "cannot listen on " + path + ": " + words};
}

}  // namespace

UnixSocketResult UnixSocket::listen(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const std::string above = folder.parent_path().string();
  const std::string hidden = (folder / hiddenName()).string();
  const auto address = addressOf(path);
  if (!address || !addressOf(hidden)) {
    return {.problem =
                "cannot listen: a socket's path has at most 107 bytes, this one would have " +
                std::to_string(std::max(path.size(), hidden.size())) +
                "; set EBBTIDE_SOCKET_DIR to a shorter folder"};
  }
  struct stat status {};
  const bool made_above = ::lstat(above.c_str(), &status) != 0;
  std::string why = whyNotOurFolder(above);
  if (!why.empty()) return {.problem = std::move(why)};
  const FolderLock lock(above, kOpenAttempts);
  why = whyNotOurFolder(folder.string());
  if (!why.empty()) return {.problem = std::move(why)};
  const bool replaces = ::lstat(path.c_str(), &status) == 0;
  if (replaces) {
    if (!S_ISSOCK(status.st_mode)) {
      return {.problem = "cannot listen on " + path + ": there is something that is not a socket"};
    }
    if (somebodyListens(*address)) {
      return {.problem = "cannot listen on " + path + ": another process listens there"};
    }
  }
  std::unique_ptr<UnixSocket> opened(new UnixSocket);
  opened->path_ = path;
  OpenSocket socket = openSocket(path, hidden, replaces);
  // A process that ended without the lock removed the folder: it was empty, so the name is free.
  if (socket.error == ENOENT && whyNotOurFolder(folder.string()).empty())
    socket = openSocket(path, hidden, /*replaces=*/false);
  opened->descriptor_ = socket.descriptor;
  if (opened->descriptor_ < 0) {
    ::rmdir(folder.c_str());  // where nobody else is in it
    if (made_above) ::rmdir(above.c_str());
    return {.problem = std::move(socket.problem)};
  }
  if (::lstat(path.c_str(), &status) == 0) {
    opened->device_ = status.st_dev;
    opened->inode_ = status.st_ino;
  }
  return {.socket = std::move(opened)};
}

UnixSocket::~UnixSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int UnixSocket::release() noexcept {
  return std::exchange(descriptor_, -1);
}

void UnixSocket::removeName() noexcept {
  try {
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    const FolderLock lock(folder.parent_path().string(), kRemoveAttempts);
    struct stat status {};
    if (::lstat(path_.c_str(), &status) != 0) return;
    if (status.st_dev != device_ || status.st_ino != inode_) return;
    ::unlink(path_.c_str());
    ::rmdir(folder.c_str());
  } catch (const std::exception&) {  // out of memory: the next process of that name replaces it
  }
}

void UnixSocket::removeDeadNeighbours() const noexcept {
  try {
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    const FolderLock lock(folder.parent_path().string(), kCleanAttempts);
    if (lock.held()) removeDeadSockets(folder);
  } catch (const std::exception&) {  // they are left there
  }
}

void UnixSocket::removeDeadJobs() const noexcept {
  try {
    const std::filesystem::path own = std::filesystem::path(path_).parent_path();
    const FolderLock lock(own.parent_path().string(), kCleanAttempts);
    if (!lock.held()) return;  // an empty folder may be that of a job that starts
    std::error_code error;
    int looked_at = 0;
    for (const auto& job : std::filesystem::directory_iterator(own.parent_path(), error)) {
      struct stat status {};
      if (job.path() == own || ::lstat(job.path().c_str(), &status) != 0) continue;
      if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid()) continue;
      if (++looked_at > kMostJobs) break;
      removeDeadSockets(job.path());
      ::rmdir(job.path().c_str());  // where nothing is left in it
    }
  } catch (const std::exception&) {  // they are left there
  }
}

bool peerIsThisUser(int descriptor) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace ebbtide::metrics
