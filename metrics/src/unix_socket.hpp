// UnixSocket: a listening socket in a folder that is this user's alone.
//
// Its name appears when it listens already: bound under another name in the same folder, then
// renamed. So a socket that refuses a connection has nobody behind it, and may be replaced. A
// process that makes its socket or removes it takes a lock on the folder above, or goes on without
// it after a while. Dead sockets of others go under the lock alone.
//
// Limit: two processes without the lock may find the same dead socket, and both replace it. The
// first one then listens under no name.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

namespace ebbtide::metrics {

struct UnixSocketResult;

class UnixSocket {
 public:
  // The path's folder and the one above it are made if they are missing (0700). There is none where
  // they are not ours alone, the path is too long for a socket's address, or a live process listens
  // there.
  static UnixSocketResult listen(const std::string& path);

  ~UnixSocket();  // closes it, unless released
  UnixSocket(const UnixSocket&) = delete;
  UnixSocket& operator=(const UnixSocket&) = delete;

  // Takes away the names of other ranks in its folder that nobody listens on: of a run that was
  // killed, and had more ranks. So with the names before those of processes that are gone.
  void removeDeadNeighbours() const noexcept;
  // The same in the folders of other jobs, a hundred at most, and those that are empty then.
  void removeDeadJobs() const noexcept;

  // The descriptor is the caller's from here on. Non-blocking, closed on exec.
  int release() noexcept;

  // Takes the name away if it is still this socket's, and the folder if nothing is left in it. Not
  // called in a forked child: the name is the parent's.
  void removeName() noexcept;

  const std::string& path() const noexcept { return path_; }

 private:
  UnixSocket() = default;

  std::string path_;
  int descriptor_ = -1;
  dev_t device_ = 0;  // of the name, to know it again
  ino_t inode_ = 0;
};

struct UnixSocketResult {
  std::unique_ptr<UnixSocket> socket = nullptr;
  std::string problem = {};  // one sentence, where there is none
};

// Of a connected Unix socket: true when its other end belongs to this user.
bool peerIsThisUser(int descriptor) noexcept;

}  // namespace ebbtide::metrics
