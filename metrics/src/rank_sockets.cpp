#include "rank_sockets.hpp"

#include <dirent.h>

#include <cerrno>
#include <memory>
#include <new>

#include "ebbtide/metrics/socket_folder.hpp"

namespace ebbtide::metrics {
namespace {

struct Close {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

// Not std::filesystem: libstdc++ allocates in a noexcept function there, and without memory that
// ends the trainer.
std::map<int, std::string> rankSockets(const std::string& folder) {
  std::map<int, std::string> sockets;
  const std::unique_ptr<DIR, Close> opened(::opendir(folder.c_str()));
  if (opened == nullptr) {
    if (errno == ENOMEM) throw std::bad_alloc();
    return sockets;
  }
  while (const dirent* entry = ::readdir(opened.get())) {
    const std::string name = entry->d_name;
    if (const auto rank = rankOfSocket(name)) sockets.emplace(*rank, folder + "/" + name);
  }
  return sockets;
}

}  // namespace ebbtide::metrics
