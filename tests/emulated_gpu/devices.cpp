// The machine of an emulated GPU, in this process alone: /dev seems to have the device's node,
// where Ebbtide looks for a GPU, and EMULATED_GPU_HOST_GIB is the host's memory, which bounds what
// may be pinned.
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool listsDevices(DIR* folder) {
  char link[64], path[PATH_MAX] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd(folder));
  return readlink(link, path, sizeof path - 1) > 0 && std::strcmp(path, "/dev") == 0;
}

template <typename Entry>
Entry* nextOf(DIR* folder, const char* real) {
  using Read = Entry* (*)(DIR*);
  static const Read read = reinterpret_cast<Read>(dlsym(RTLD_NEXT, real));
  thread_local DIR* told = nullptr;  // heard of the node, and ends next
  thread_local Entry node;
  if (Entry* const entry = read(folder)) return entry;
  if (told == folder || !listsDevices(folder)) {
    told = nullptr;
    return nullptr;
  }
  told = folder;
  node = {};
  std::strcpy(node.d_name, "nvidia0");
  node.d_type = DT_CHR;
  return &node;
}

}  // namespace

#define SHOWN extern "C" __attribute__((visibility("default")))
SHOWN dirent* readdir(DIR* folder) {
  return nextOf<dirent>(folder, "readdir");
}
SHOWN dirent64* readdir64(DIR* folder) {
  return nextOf<dirent64>(folder, "readdir64");
}
SHOWN long sysconf(int name) noexcept {
  using Ask = long (*)(int);
  static const Ask ask = reinterpret_cast<Ask>(dlsym(RTLD_NEXT, "sysconf"));
  const char* const gib = name == _SC_PHYS_PAGES ? std::getenv("EMULATED_GPU_HOST_GIB") : nullptr;
  return gib == nullptr ? ask(name) : (std::atol(gib) << 30) / ask(_SC_PAGE_SIZE);
}
