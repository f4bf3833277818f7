// libnccl.so.2's functions, as far as torch 2.11 imports them.
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "launch.hpp"

using emulated_nccl::Kind;
using emulated_nccl::Launch;
using emulated_nccl::Operation;
using emulated_nccl::Reduction;

namespace {

struct Call {
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Operation> operations;
};

// This thread's calls since the outermost ncclGroupStart, by communicator and stream.
struct Group {
  int depth = 0;
  std::vector<Call> calls;
};
Group& group() {
  thread_local Group only;
  return only;
}

ncclResult_t refused(ncclComm* comm, const char* why) {
  if (comm != nullptr) comm->problem = why;
  std::fprintf(stderr, "emulated NCCL: %s\n", why);
  return ncclInvalidArgument;
}

ncclResult_t checked(ncclComm* comm, const Operation& operation) {
  if (comm == nullptr) return refused(comm, "no communicator");
  if (emulated_nccl::elementBytes(operation.type) == 0) return refused(comm, "no such data type");
  if (operation.other < 0 || operation.other >= comm->meeting.ranks()) {
    return refused(comm, "no such rank");
  }
  return ncclSuccess;
}

ncclResult_t ask(ncclComm* comm, cudaStream_t stream, Operation operation) {
  if (const ncclResult_t error = checked(comm, operation)) return error;
  if (operation.count == 0 && !isMessage(operation.kind)) return ncclSuccess;
  if (group().depth == 0) {
    return Launch::enqueue(
        std::make_unique<Launch>(*comm, stream, std::vector<Operation>{operation}));
  }
  for (Call& call : group().calls) {
    if (call.comm != comm || call.stream != stream) continue;
    call.operations.push_back(operation);
    return ncclSuccess;
  }
  group().calls.push_back({comm, stream, {operation}});
  return ncclSuccess;
}

ncclResult_t askToReduce(ncclComm* comm, cudaStream_t stream, Operation operation, ncclRedOp_t by) {
  if (comm == nullptr) return refused(comm, "no communicator");
  if (!emulated_nccl::reduces(operation.type)) return refused(comm, "this data type has no sums");
  operation.reduction.operation = by;
  if (by >= ncclNumOps) {
    const auto own = static_cast<std::size_t>(by - ncclNumOps);
    if (own >= comm->reductions.size()) return refused(comm, "no such reduction");
    operation.reduction = comm->reductions[own];
  }
  return ask(comm, stream, operation);
}

ncclResult_t made(ncclComm** into, ncclComm* comm) {
  *into = comm;
  return comm->error;
}

}  // namespace

#define NCCL extern "C" __attribute__((visibility("default")))

// --- communicators

NCCL ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
NCCL ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "emulated-nccl-%d-%08x%08x",
                static_cast<int>(getpid()), random(), random());
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                         ncclConfig_t*) {
  if (ranks < 1 || rank < 0 || rank >= ranks) return refused(nullptr, "no such rank");
  return made(comm, new ncclComm(id.internal, rank, ranks));
}
NCCL ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}
NCCL ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int,
                                           ncclUniqueId* ids, ncclConfig_t* config) {
  return ncclCommInitRankConfig(comm, ranks, ids[0], rank, config);
}
NCCL ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([=] {
      cudaSetDevice(devices == nullptr ? i : devices[i]);
      ncclCommInitRank(&comms[i], count, id, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < count; ++i) {
    if (comms[i]->error != ncclSuccess) return comms[i]->error;
  }
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* result,
                                ncclConfig_t*) {
  *result = comm->split(color, key);
  return *result == nullptr ? comm->error.load() : (*result)->error.load();
}
NCCL ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* result,
                                 ncclConfig_t*, int flags) {
  if ((flags & NCCL_SHRINK_ABORT) != 0) comm->aborted = true;
  return made(result, comm->shrink({excluded, excluded + count}));
}
NCCL ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->drain();
  return comm->error;
}
NCCL ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  comm->drain();
  comm->leave(false);
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm != nullptr) comm->leave(true);
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->error;
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->meeting.ranks();
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->device;
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->meeting.rank();
  return ncclSuccess;
}
NCCL const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was an error",
                                    "in progress"};
  return result >= 0 && result < ncclNumResults ? kTexts[result] : "unknown result code";
}
NCCL const char* ncclGetLastError(ncclComm_t comm) {
  return comm == nullptr ? "" : comm->problem.c_str();
}

// --- memory: nothing is registered, as everything goes through the ranks' files

NCCL ncclResult_t ncclMemAlloc(void** begin, std::size_t bytes) {
  return cudaMalloc(begin, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
NCCL ncclResult_t ncclMemFree(void* begin) {
  return cudaFree(begin) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
NCCL ncclResult_t ncclCommRegister(const ncclComm_t, void* begin, std::size_t, void** handle) {
  *handle = begin;
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommDeregister(const ncclComm_t, void*) {
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommWindowRegister(ncclComm_t, void* begin, std::size_t, ncclWindow_t* window,
                                         int) {
  *window = static_cast<ncclWindow_t>(begin);
  return ncclSuccess;
}
NCCL ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) {
  return ncclSuccess;
}
// For kernels that send by themselves.
NCCL ncclResult_t ncclDevCommCreate(ncclComm_t comm, const void*, void*) {
  return refused(comm, "a device has no communicator here");
}
NCCL ncclResult_t ncclDevCommDestroy(ncclComm_t, const void*) {
  return ncclSuccess;
}

// --- groups

NCCL ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}
NCCL ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return ncclInvalidUsage;
  if (--group().depth > 0) return ncclSuccess;
  const std::vector<Call> calls = std::move(group().calls);
  group().calls.clear();
  ncclResult_t first = ncclSuccess;
  for (const Call& call : calls) {
    const ncclResult_t result =
        Launch::enqueue(std::make_unique<Launch>(*call.comm, call.stream, call.operations));
    if (first == ncclSuccess) first = result;
  }
  return first;
}
NCCL ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  if (group().depth > 0) --group().depth;
  group().calls.clear();
  if (info != nullptr) info->estimatedTime = 0;
  return ncclSuccess;
}

// --- operations

NCCL ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* result, void* scalar, ncclDataType_t type,
                                           ncclScalarResidence_t residence, ncclComm_t comm) {
  const void* kept = scalar;
  if (residence == ncclScalarHostImmediate) {
    const char* const bytes = static_cast<const char*>(scalar);
    comm->scalars.emplace_back(bytes, bytes + emulated_nccl::elementBytes(type));
    kept = comm->scalars.back().data();
  }
  comm->reductions.push_back({ncclSum, kept});
  const auto number = static_cast<int>(comm->reductions.size()) - 1;
  *result = static_cast<ncclRedOp_t>(ncclNumOps + number);
  return ncclSuccess;
}
// Its scalar stays: work that was asked for may not have come to it.
NCCL ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) {
  return ncclSuccess;
}
NCCL ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count,
                                ncclDataType_t type, ncclRedOp_t by, ncclComm_t comm,
                                cudaStream_t stream) {
  return askToReduce(comm, stream, {Kind::kAllReduce, send, receive, count, type}, by);
}
NCCL ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count,
                                    ncclDataType_t type, ncclRedOp_t by, ncclComm_t comm,
                                    cudaStream_t stream) {
  return askToReduce(comm, stream, {Kind::kReduceScatter, send, receive, count, type}, by);
}
NCCL ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count,
                             ncclDataType_t type, ncclRedOp_t by, int root, ncclComm_t comm,
                             cudaStream_t stream) {
  return askToReduce(comm, stream, {Kind::kReduce, send, receive, count, type, {}, root}, by);
}
NCCL ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count,
                                ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return ask(comm, stream, {Kind::kAllGather, send, receive, count, type});
}
NCCL ncclResult_t ncclAlltoAll(const void* send, void* receive, std::size_t count,
                               ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return ask(comm, stream, {Kind::kAllToAll, send, receive, count, type});
}
NCCL ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count,
                                ncclDataType_t type, int root, ncclComm_t comm,
                                cudaStream_t stream) {
  return ask(comm, stream, {Kind::kBroadcast, send, receive, count, type, {}, root});
}
NCCL ncclResult_t ncclBcast(void* buffer, std::size_t count, ncclDataType_t type, int root,
                            ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
NCCL ncclResult_t ncclSend(const void* buffer, std::size_t count, ncclDataType_t type, int peer,
                           ncclComm_t comm, cudaStream_t stream) {
  return ask(comm, stream, {Kind::kSend, buffer, nullptr, count, type, {}, peer});
}
NCCL ncclResult_t ncclRecv(void* buffer, std::size_t count, ncclDataType_t type, int peer,
                           ncclComm_t comm, cudaStream_t stream) {
  return ask(comm, stream, {Kind::kReceive, nullptr, buffer, count, type, {}, peer});
}
