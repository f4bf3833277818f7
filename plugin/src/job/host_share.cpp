#include "job/host_share.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "ebbtide/metrics/machine_name.hpp"

namespace ebbtide::plugin {
namespace {

constexpr int kMostProcessors = 1 << 16;  // a machine with more is as if nothing were bound

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

// "0-3,8"; "": not known. The kernel refuses a set that is smaller than its own.
std::string boundTo(std::int32_t& count) {
  for (int room = 1024; room <= kMostProcessors; room *= 2) {
    const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(room));
    const std::size_t bytes = CPU_ALLOC_SIZE(room);
    if (set == nullptr) break;
    if (sched_getaffinity(0, bytes, set.get()) != 0) continue;
    count = CPU_COUNT_S(bytes, set.get());
    std::string text;
    for (int first = 0; first < room; ++first) {
      if (!CPU_ISSET_S(first, bytes, set.get())) continue;
      int last = first;
      while (last + 1 < room && CPU_ISSET_S(last + 1, bytes, set.get())) ++last;
      text += (text.empty() ? "" : ",") + std::to_string(first);
      if (last > first) text += "-" + std::to_string(last);
      first = last;
    }
    return text;
  }
  return "";
}

}  // namespace

HostShare hostShare() {
  const auto all = static_cast<std::int32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  HostShare share{metrics::machineName(), all};
  std::int32_t count = 0;
  const std::string bound = boundTo(count);
  if (bound.empty() || count >= all) return share;
  share.host += ", processors " + bound;
  share.processors = std::max(1, count);
  return share;
}

}  // namespace ebbtide::plugin
