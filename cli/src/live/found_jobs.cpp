#include "live/found_jobs.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "ebbtide/metrics/socket_folder.hpp"

namespace ebbtide::cli {
namespace {

namespace fs = std::filesystem;

// A full queue of connections is one that somebody listens on, if slowly.
bool isListening(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return true;  // the question itself will say why
  const int result =
      ::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const bool listening = result == 0 || errno == EAGAIN || errno == EINPROGRESS;
  ::close(descriptor);
  return listening;
}

// False: there is none.
bool checkedFolder(const std::string& folder) {
  struct stat facts {};
  if (::stat(folder.c_str(), &facts) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw std::invalid_argument("cannot look into the socket folder " + folder + ": " +
                                std::strerror(errno));
  }
  if (!S_ISDIR(facts.st_mode)) return false;
  if (facts.st_uid != ::geteuid() && ::geteuid() != 0) {
    throw std::invalid_argument("the socket folder " + folder +
                                " is another user's, so what listens there is not asked; set "
                                "EBBTIDE_SOCKET_DIR as the job has it");
  }
  return true;
}

}  // namespace

std::string socketFolder() {
  const char* given = std::getenv("EBBTIDE_SOCKET_DIR");
  return metrics::socketFolder(given == nullptr ? "" : given);
}

std::vector<FoundRank> socketsOf(const std::string& job_folder) {
  std::vector<FoundRank> sockets;
  std::error_code error;
  for (fs::directory_iterator at(job_folder, error), end; !error && at != end;
       at.increment(error)) {
    if (const auto rank = metrics::rankOfSocket(at->path().filename().string())) {
      sockets.push_back({*rank, at->path().string()});
    }
  }
  std::sort(sockets.begin(), sockets.end(),
            [](const FoundRank& a, const FoundRank& b) { return a.rank < b.rank; });
  return sockets;
}

std::vector<FoundJob> findJobs(const std::string& folder) {
  std::vector<FoundJob> jobs;
  if (!checkedFolder(folder)) return jobs;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) continue;
    FoundJob job{.id = at->path().filename().string(), .ranks = {}, .dead = {}};
    for (FoundRank& socket : socketsOf(at->path().string())) {
      if (isListening(socket.path)) {
        job.ranks.push_back(std::move(socket));
      } else {
        job.dead.push_back(socket.rank);
      }
    }
    if (!job.ranks.empty() || !job.dead.empty()) jobs.push_back(std::move(job));
  }
  if (error) {
    throw std::invalid_argument("cannot look into the socket folder " + folder + ": " +
                                error.message());
  }
  std::sort(jobs.begin(), jobs.end(),
            [](const FoundJob& a, const FoundJob& b) { return a.id < b.id; });
  return jobs;
}

}  // namespace ebbtide::cli
