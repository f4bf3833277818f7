#include "nccl/nccl_side.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "nccl/waits_interface.h"

namespace ebbtide::plugin {
namespace {

constexpr const char* kVariable = "NCCL_PROFILER_PLUGIN";
constexpr const char* kName = "ebbtide";  // NCCL looks for libnccl-profiler-<name>.so
constexpr const char* kLibrary = "libnccl-profiler-ebbtide.so";

struct Library {
  ebbtide_nccl_watch_t watch = nullptr;
  ebbtide_nccl_totals_t totals = nullptr;
  ebbtide_nccl_waits_since_t since = nullptr;

  explicit operator bool() const noexcept { return watch && totals && since; }
};
Library library;

template <typename Function>
void find(void* in, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(dlsym(in, name));
}

}  // namespace

bool offerToNccl(const std::string& folder) {
  if (library) return true;
  const char* const named = std::getenv(kVariable);
  if (named != nullptr && std::strcmp(named, kName) != 0) return false;
  // Kept for ever: NCCL, which closes it after its last communicator, and we share what it noted.
  // NCCL's dlopen() of the name alone finds it since it is loaded already.
  void* const loaded = dlopen((folder + "/" + kLibrary).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) return false;
  Library found;
  find(loaded, "ebbtide_nccl_watch", found.watch);
  find(loaded, "ebbtide_nccl_totals", found.totals);
  find(loaded, "ebbtide_nccl_waits_since", found.since);
  if (!found || setenv(kVariable, kName, 0) != 0) return false;
  library = found;
  return true;
}

void watchNccl(bool on) noexcept {
  if (library) library.watch(on);
}

std::optional<CommunicationTotals> ncclTotals() {
  if (!library) return std::nullopt;
  CommunicationTotals totals;
  library.totals(&totals);
  return totals;
}

std::vector<CommunicationWait> ncclWaitsSince(std::uint64_t& cursor) {
  std::vector<CommunicationWait> waits;
  if (!library) return waits;
  constexpr std::size_t kAtOnce = 512;
  for (std::size_t copied = kAtOnce;
       copied == kAtOnce && waits.size() < CommunicationWaits::kKept;) {
    const std::size_t before = waits.size();
    waits.resize(before + kAtOnce);
    copied = library.since(&cursor, waits.data() + before, kAtOnce, nullptr);
    waits.resize(before + copied);
  }
  return waits;
}

}  // namespace ebbtide::plugin
