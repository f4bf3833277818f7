#include "profiler.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "operation.hpp"

namespace emulated_nccl {
namespace {

namespace interface = ebbtide::plugin::nccl;

int mask = 0;  // one for all communicators, which the plugin may change at any time

bool watches(int kind) {
  return (__atomic_load_n(&mask, __ATOMIC_RELAXED) & kind) != 0;
}

bool told() {
  const char* const level = std::getenv("NCCL_DEBUG");
  return level != nullptr && std::strcmp(level, "INFO") == 0;
}

// A file's name, or what stands in its middle.
const interface::ProfilerV5* load() {
  const char* const variable = std::getenv("NCCL_PROFILER_PLUGIN");
  const std::string name = variable == nullptr ? "" : variable;
  if (name == "none") return nullptr;
  void* library = name.empty() ? nullptr : dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string file = "libnccl-profiler" + (name.empty() ? "" : "-" + name) + ".so";
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return nullptr;
  const auto* const found =
      static_cast<const interface::ProfilerV5*>(dlsym(library, "ncclProfiler_v5"));
  if (found != nullptr && told()) {
    std::printf("NCCL INFO PROFILER/Plugin: Loaded %s (v5)\n", found->name);
    std::fflush(stdout);
  }
  return found;
}

const interface::ProfilerV5* plugin() {
  static const auto* const loaded = load();
  return loaded;
}

using Descriptor = interface::Descriptor<std::uint64_t>;

void* started(void* context, Descriptor& event) {
  void* handle = nullptr;
  return plugin()->startEvent(context, &handle, &event) == interface::kSuccess ? handle : nullptr;
}

}  // namespace

void Profiler::begin(std::uint64_t communicator, int ranks, int rank) {
  rank_ = rank;
  if (plugin() == nullptr) return;
  const int failed =
      plugin()->init(&context_, communicator, &mask, nullptr, 1, ranks, rank, nullptr);
  if (failed != interface::kSuccess) context_ = nullptr;
}

void Profiler::end() {
  if (context_ != nullptr) plugin()->finalize(context_);
  context_ = nullptr;
}

void* Profiler::start(const Operation& operation) const {
  const int kind = isMessage(operation.kind) ? interface::kPointToPoint : interface::kCollective;
  if (context_ == nullptr || !watches(kind)) return nullptr;
  Descriptor event{};
  event.type = static_cast<std::uint64_t>(kind);
  event.rank = rank_;
  if (isMessage(operation.kind)) {
    auto& message = event.point_to_point;
    message.function = nameOf(operation.kind);
    message.data_type = typeName(operation.type);
    message.count = operation.count;
    message.peer = operation.other;
    message.channels = 1;
  } else {
    auto& collective = event.collective;
    collective.function = nameOf(operation.kind);
    collective.send_buffer = operation.send;
    collective.receive_buffer = operation.receive;
    collective.count = operation.count;
    collective.root = operation.other;
    collective.data_type = typeName(operation.type);
    collective.channels = 1;
    collective.warps = 1;
    collective.algorithm = "Ring";
    collective.protocol = "Simple";
  }
  return started(context_, event);
}

void Profiler::launched(void* event) const {
  if (event != nullptr) plugin()->stopEvent(event);
}

void* Profiler::entered(void* event, double nanoseconds) const {
  if (event == nullptr || context_ == nullptr || !watches(interface::kKernelChannel))
    return nullptr;
  Descriptor channel{};
  channel.type = interface::kKernelChannel;
  channel.parent = event;
  channel.rank = rank_;
  // 0 would be no time.
  channel.kernel_channel = {.channel = 0, .device_ns = static_cast<std::uint64_t>(nanoseconds) + 1};
  return started(context_, channel);
}

void Profiler::left(void* channel, double nanoseconds) const {
  if (channel == nullptr) return;
  interface::StateArguments arguments {};
  arguments.kernel_channel.device_ns = static_cast<std::uint64_t>(nanoseconds) + 1;
  plugin()->recordEventState(channel, interface::kKernelChannelStop, &arguments);
  plugin()->stopEvent(channel);
}

}  // namespace emulated_nccl
