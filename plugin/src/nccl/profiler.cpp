// libnccl-profiler-ebbtide.so: NCCL loads it as a profiler plugin; the session reads what it noted.
// Links neither torch nor CUDA nor NCCL. Errors never reach NCCL: every call succeeds.
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>

#include "base/run_clock.hpp"
#include "nccl/open_operations.hpp"
#include "nccl/profiler_interface.hpp"
#include "nccl/waits_interface.h"

namespace ebbtide::plugin::nccl {
namespace {

constexpr int kWatched = kCollective | kPointToPoint | kKernelChannel;

// Never destroyed: NCCL's threads may outlive main().
CommunicationWaits& waits() noexcept {
  alignas(CommunicationWaits) static std::array<std::byte, sizeof(CommunicationWaits)> memory;
  static auto* const only = new (memory.data()) CommunicationWaits;
  return *only;
}
OpenOperations& operations() noexcept {
  alignas(OpenOperations) static std::array<std::byte, sizeof(OpenOperations)> memory;
  static auto* const only = new (memory.data()) OpenOperations(waits());
  return *only;
}

std::int64_t now() noexcept {
  return RunClock::nanoseconds();
}

// The masks that NCCL reads at each operation: a variable of the library, one for all communicators
// of it. A process may have a few copies of NCCL.
std::atomic<bool> watching{true};
std::array<std::atomic<int*>, 4> masks{};

void setMask(int* mask) noexcept {
  __atomic_store_n(mask, watching.load() ? kWatched : 0, __ATOMIC_RELAXED);
}

void keepMask(int* mask) noexcept {
  if (mask == nullptr) return;
  for (auto& known : masks) {
    int* none = nullptr;
    if (known.load() == mask || known.compare_exchange_strong(none, mask) || none == mask) break;
  }
  setMask(mask);
}

CommunicationKind kindOf(const char* function) noexcept {
  struct Name {
    const char* text;
    CommunicationKind kind;
  };
  static constexpr Name kNames[] = {{"Send", CommunicationKind::kSend},
                                    {"Recv", CommunicationKind::kReceive},
                                    {"AllReduce", CommunicationKind::kAllReduce},
                                    {"AllGather", CommunicationKind::kAllGather},
                                    {"ReduceScatter", CommunicationKind::kReduceScatter},
                                    {"Broadcast", CommunicationKind::kBroadcast},
                                    {"Reduce", CommunicationKind::kReduce},
                                    {"AlltoAll", CommunicationKind::kAllToAll}};
  for (const Name& name : kNames)
    if (function != nullptr && std::strcmp(function, name.text) == 0) return name.kind;
  return CommunicationKind::kOther;
}

// "ncclBfloat16": 2. The first number in the name is of bits. 0: none.
std::int64_t elementBytes(const char* data_type) noexcept {
  std::int64_t bits = 0;
  for (const char* c = data_type; c != nullptr && *c != '\0'; ++c) {
    const bool digit = *c >= '0' && *c <= '9';
    if (!digit && bits > 0) break;
    if (digit && bits < 1024) bits = bits * 10 + (*c - '0');
  }
  return bits / 8;
}

std::int64_t bytesOf(std::size_t count, const char* data_type) noexcept {
  std::int64_t bytes = 0;
  const bool fits =
      !__builtin_mul_overflow(static_cast<std::int64_t>(count), elementBytes(data_type), &bytes);
  return fits && bytes >= 0 ? bytes : 0;
}

// What NCCL gets as handles and contexts: numbers. A channel's has the lowest bit.
void* handleOf(OpenOperations::Handle operation, bool channel) noexcept {
  return operation == 0 ? nullptr : reinterpret_cast<void*>(operation << 1 | (channel ? 1U : 0U));
}
bool isChannel(void* handle) noexcept {
  return (reinterpret_cast<std::uintptr_t>(handle) & 1) != 0;
}
OpenOperations::Handle operationOf(void* handle) noexcept {
  return reinterpret_cast<std::uintptr_t>(handle) >> 1;
}

int start(void** context, int* mask, std::uint64_t communicator) noexcept {
  keepMask(mask);
  if (context != nullptr) {
    *context = reinterpret_cast<void*>(communicator != 0 ? communicator : std::uint64_t{1});
  }
  return kSuccess;
}

int initV4(void** context, int* mask, const char*, std::uint64_t communicator, int, int, int,
           Logger) noexcept {
  return start(context, mask, communicator);
}
int initV5(void** context, std::uint64_t communicator, int* mask, const char*, int, int, int,
           Logger) noexcept {
  return start(context, mask, communicator);
}

template <typename Type>
int startEvent(void* context, void** handle, Descriptor<Type>* event) noexcept {
  if (handle == nullptr) return kSuccess;
  *handle = nullptr;
  if (event == nullptr) return kSuccess;
  OpenOperations::Operation operation{.communicator = reinterpret_cast<std::uintptr_t>(context)};
  switch (static_cast<int>(event->type)) {
    case kCollective:
      operation.kind = kindOf(event->collective.function);
      operation.bytes = bytesOf(event->collective.count, event->collective.data_type);
      operation.channels = event->collective.channels;
      break;
    case kPointToPoint:
      operation.kind = kindOf(event->point_to_point.function);
      operation.bytes = bytesOf(event->point_to_point.count, event->point_to_point.data_type);
      operation.peer = event->point_to_point.peer;
      // Version 4 leaves them as they were in memory where a newer NCCL translates.
      if (sizeof(Type) > 1) operation.channels = event->point_to_point.channels;
      break;
    case kKernelChannel:
      if (event->parent == nullptr || isChannel(event->parent)) return kSuccess;
      *handle = handleOf(operationOf(event->parent), true);
      operations().entered(operationOf(event->parent), now(), event->kernel_channel.device_ns);
      return kSuccess;
    default:
      return kSuccess;
  }
  *handle = handleOf(operations().start(operation, now()), false);
  return kSuccess;
}

int stopEvent(void* handle) noexcept {
  if (handle == nullptr) return kSuccess;
  if (isChannel(handle)) {
    operations().left(operationOf(handle), now());
  } else {
    operations().launched(operationOf(handle));
  }
  return kSuccess;
}

int recordEventState(void* handle, int state, StateArguments* arguments) noexcept {
  if (handle != nullptr && isChannel(handle) && state == kKernelChannelStop && arguments != nullptr)
    operations().leaving(operationOf(handle), arguments->kernel_channel.device_ns);
  return kSuccess;
}

int finalize(void*) noexcept {
  return kSuccess;
}

}  // namespace
}  // namespace ebbtide::plugin::nccl

#define EBBTIDE_API extern "C" __attribute__((visibility("default")))

extern "C" {
extern __attribute__((visibility("default"))) ebbtide::plugin::nccl::ProfilerV4 ncclProfiler_v4;
extern __attribute__((visibility("default"))) ebbtide::plugin::nccl::ProfilerV5 ncclProfiler_v5;
}

ebbtide::plugin::nccl::ProfilerV4 ncclProfiler_v4{"ebbtide",
                                                  ebbtide::plugin::nccl::initV4,
                                                  ebbtide::plugin::nccl::startEvent<std::uint8_t>,
                                                  ebbtide::plugin::nccl::stopEvent,
                                                  ebbtide::plugin::nccl::recordEventState,
                                                  ebbtide::plugin::nccl::finalize};

ebbtide::plugin::nccl::ProfilerV5 ncclProfiler_v5{"ebbtide",
                                                  ebbtide::plugin::nccl::initV5,
                                                  ebbtide::plugin::nccl::startEvent<std::uint64_t>,
                                                  ebbtide::plugin::nccl::stopEvent,
                                                  ebbtide::plugin::nccl::recordEventState,
                                                  ebbtide::plugin::nccl::finalize};

EBBTIDE_API void ebbtide_nccl_watch(bool on) {
  using namespace ebbtide::plugin::nccl;
  if (watching.exchange(on) == on) return;
  for (auto& known : masks)
    if (int* const mask = known.load()) setMask(mask);
}

EBBTIDE_API void ebbtide_nccl_totals(ebbtide::plugin::CommunicationTotals* totals) {
  using namespace ebbtide::plugin::nccl;
  operations().settle(now());
  *totals = waits().totals();
}

EBBTIDE_API std::size_t ebbtide_nccl_waits_since(std::uint64_t* cursor,
                                                 ebbtide::plugin::CommunicationWait* out,
                                                 std::size_t room, std::uint64_t* missed) {
  using namespace ebbtide::plugin::nccl;
  operations().settle(now());
  const auto read = waits().since(*cursor, out, room);
  if (missed != nullptr) *missed = read.missed;
  return read.copied;
}
