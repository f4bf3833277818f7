// NCCL's interface of profiler plugins, as far as we read it: versions 4 (NCCL 2.26, 2.27) and 5
// (2.28; later releases take it, too). Facts of NCCL's ext-profiler, declared anew; sizes and
// places of the fields are NCCL's and are checked by the tests.
//
// NCCL loads the library, looks for the symbol ncclProfiler_v5, then _v4, and calls init() once a
// communicator. Events come from the threads that call NCCL, and from a thread of each
// communicator that polls for what its kernels have done.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ebbtide::plugin::nccl {

// Kinds of events, a bit each, for the mask that init() sets and for a descriptor's type.
enum Event : int {
  kCollective = 1 << 1,     // from before the launch of its kernel to after it, on the host
  kPointToPoint = 1 << 2,   // likewise
  kKernelChannel = 1 << 6,  // one channel of a kernel, of the event that is its parent
};

constexpr int kKernelChannelStop = 22;  // of recordEventState(): the device's time comes with it
constexpr int kSuccess = 0;             // of ncclResult_t

struct CollectiveDescriptor {
  std::uint64_t sequence_number;
  const char* function;  // "AllReduce"
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* data_type;  // "ncclFloat32"
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
  void* parent_group;  // version 5
};

struct PointToPointDescriptor {
  const char* function;  // "Send", "Recv"
  void* buffer;
  const char* data_type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
  void* parent_group;  // version 5
};

struct KernelChannelDescriptor {
  std::uint8_t channel;
  std::uint64_t device_ns;  // the device's global timer at the begin
};

// Type: std::uint8_t in version 4, std::uint64_t in version 5.
template <typename Type>
struct Descriptor {
  Type type;
  void* parent;
  int rank;
  union {
    CollectiveDescriptor collective;
    PointToPointDescriptor point_to_point;
    KernelChannelDescriptor kernel_channel;
  };
};

union StateArguments {
  struct {
    std::uint64_t device_ns;  // the device's global timer at the end
  } kernel_channel;
};

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

struct ProfilerV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* communicator_name,
              std::uint64_t communicator_hash, int nodes, int ranks, int rank, Logger logger);
  int (*startEvent)(void* context, void** handle, Descriptor<std::uint8_t>* descriptor);
  int (*stopEvent)(void* handle);
  int (*recordEventState)(void* handle, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};

struct ProfilerV5 {
  const char* name;
  int (*init)(void** context, std::uint64_t communicator_id, int* mask,
              const char* communicator_name, int nodes, int ranks, int rank, Logger logger);
  int (*startEvent)(void* context, void** handle, Descriptor<std::uint64_t>* descriptor);
  int (*stopEvent)(void* handle);
  int (*recordEventState)(void* handle, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};

}  // namespace ebbtide::plugin::nccl
