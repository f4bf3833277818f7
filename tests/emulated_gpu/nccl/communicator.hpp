// A rank's part of a communicator. Never freed: graphs and streams may hold its work.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <vector>

#include "meeting.hpp"
#include "operation.hpp"
#include "profiler.hpp"

namespace emulated_nccl {
class Launch;

// Device memory of a communicator, which counts as what others hold of the device.
inline constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
}  // namespace emulated_nccl

struct ncclComm {
  ncclComm(const std::string& name, int rank, int ranks);

  // The first failure stays, and is printed.
  void fail(ncclResult_t result, const std::string& why);
  // Its work is done, or it failed.
  void drain();
  // Other ranks that wait for this one hear of it.
  void leave(bool aborts);
  // As a split: once all ranks have asked for the same. Null: of no group, or `error` tells.
  ncclComm* split(int color, int key);
  ncclComm* shrink(const std::vector<int>& excluded);

  // Work that was asked for and is not done, in order; under `mutex`.
  void add(emulated_nccl::Launch* launch);
  void remove(emulated_nccl::Launch* launch);
  cudaStream_t firstStream();  // null: nothing to do
  bool othersWait() const;

  const std::string name;
  emulated_nccl::Meeting meeting;
  emulated_nccl::Profiler profiler;
  int device = 0;
  std::uint64_t collectives = 0;  // that its streams have come to; under the device's lock
  std::vector<emulated_nccl::Reduction> reductions;  // of ncclRedOpCreatePreMulSum
  std::list<std::vector<char>> scalars;              // theirs
  std::atomic<ncclResult_t> error{ncclSuccess};
  std::atomic<bool> aborted{false};
  std::string problem;                           // of `error`
  emulated_nccl::Clock::time_point failed_at{};  // likewise
  // The last work's: what comes next on another stream comes after it.
  cudaStream_t stream = nullptr;
  unsigned long tasks = 0;

 private:
  std::mutex mutex_;
  std::list<emulated_nccl::Launch*> launches_;
  std::uint64_t splits_ = 0, shrinks_ = 0;
  void* buffer_ = nullptr;
};
