#include "communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <thread>

#include "launch.hpp"
#include "seam.h"

using emulated_nccl::Clock;
using emulated_nccl::Meeting;
using emulated_nccl::Rank;

namespace emulated_nccl {
namespace {

// A kernel of a real device needs nobody who waits for it. Here a stream gets on when somebody
// looks at it: where another rank waits for this one, and nobody here does, this thread looks.
class Attendant {
 public:
  Attendant() : thread_([this] { run(); }) {}
  ~Attendant() {
    ends_ = true;
    thread_.join();
  }
  void add(ncclComm* comm) {
    const std::lock_guard lock(mutex_);
    all_.push_back({comm, 0});
  }

 private:
  static constexpr int kPatience = 10;  // of looks, 10 ms apart: the program comes first

  void run() {
    while (!ends_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::lock_guard lock(mutex_);
      for (auto& [comm, waited] : all_) {
        waited = comm->othersWait() && comm->firstStream() != nullptr ? waited + 1 : 0;
        if (waited >= kPatience) attend(*comm);
      }
    }
  }
  void attend(ncclComm& comm) const {
    for (int i = 0; i < 1000 && !ends_ && comm.othersWait(); ++i) {
      const cudaStream_t stream = comm.firstStream();
      if (stream == nullptr) return;
      emulated_gpu_look(stream);
    }
  }

  struct Attended {
    ncclComm* comm = nullptr;
    int waited = 0;
  };
  std::mutex mutex_;
  std::vector<Attended> all_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

// Ends before what the process loaded earlier is destroyed.
Attendant& attendant() {
  static Attendant only;
  return only;
}

std::string hashed(const std::string& text) {
  char name[40];
  std::snprintf(name, sizeof name, "emulated-nccl-%016zx", std::hash<std::string>{}(text));
  return name;
}

}  // namespace
}  // namespace emulated_nccl

ncclComm::ncclComm(const std::string& given, int rank, int ranks)
    : name(given), meeting(given, rank, ranks) {
  if (!meeting.problem().empty()) {
    fail(ncclSystemError, meeting.problem());
    return;
  }
  cudaGetDevice(&device);
  if (cudaMalloc(&buffer_, emulated_nccl::kBufferBytes) != cudaSuccess) {
    fail(ncclUnhandledCudaError, "no device memory for a communicator");
    return;
  }
  profiler.begin(std::hash<std::string>{}(name), ranks, rank);
  emulated_nccl::attendant().add(this);
}

void ncclComm::fail(ncclResult_t result, const std::string& why) {
  if (error != ncclSuccess) return;
  problem = why;
  failed_at = Clock::now();
  std::fprintf(stderr, "emulated NCCL: rank %d: %s\n", meeting.rank(), why.c_str());
  error = result;
}

void ncclComm::drain() {
  while (!aborted && error == ncclSuccess) {
    const cudaStream_t first = firstStream();
    if (first == nullptr) return;
    emulated_gpu_look(first);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

void ncclComm::leave(bool aborts) {
  if (aborts) aborted = true;
  if (!meeting.problem().empty()) return;
  meeting.own().gone = true;
  profiler.end();
  // A free waits for the device, and what an abort ends may still be there.
  if (!aborts && error == ncclSuccess) cudaFree(buffer_);
}

ncclComm* ncclComm::split(int color, int key) {
  const std::uint64_t number = ++splits_;
  const auto place = static_cast<std::size_t>(Meeting::placeOf(number));
  Rank& own = meeting.own();
  own.color[place] = color;
  own.key[place] = key;
  own.split = number;
  const auto until = Clock::now() + emulated_nccl::timeLimit();
  std::vector<std::pair<int, int>> members;  // key, rank
  for (int i = 0; i < meeting.ranks(); ++i) {
    const Rank& other = meeting.of(i);
    while (other.split < number) {
      const bool lost = meeting.lost(i) && other.split < number;
      if (lost || aborted || Clock::now() > until) {
        fail(ncclRemoteError, "rank " + std::to_string(i) + " has not come to a split");
        return nullptr;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (other.color[place] == color) members.emplace_back(other.key[place], i);
  }
  if (color == NCCL_SPLIT_NOCOLOR) return nullptr;
  std::sort(members.begin(), members.end());
  const auto at = std::find(members.begin(), members.end(), std::pair(key, meeting.rank()));
  const std::string of = name + " split " + std::to_string(number) + " " + std::to_string(color);
  return new ncclComm(emulated_nccl::hashed(of), static_cast<int>(at - members.begin()),
                      static_cast<int>(members.size()));
}

ncclComm* ncclComm::shrink(const std::vector<int>& excluded) {
  std::vector<int> members;
  std::string of = name + " shrunk " + std::to_string(++shrinks_);
  for (int i = 0; i < meeting.ranks(); ++i) {
    if (std::find(excluded.begin(), excluded.end(), i) == excluded.end()) members.push_back(i);
  }
  const auto at = std::find(members.begin(), members.end(), meeting.rank());
  return new ncclComm(emulated_nccl::hashed(of), static_cast<int>(at - members.begin()),
                      static_cast<int>(members.size()));
}

void ncclComm::add(emulated_nccl::Launch* launch) {
  const std::lock_guard lock(mutex_);
  launches_.push_back(launch);
}

void ncclComm::remove(emulated_nccl::Launch* launch) {
  const std::lock_guard lock(mutex_);
  launches_.remove(launch);
}

cudaStream_t ncclComm::firstStream() {
  const std::lock_guard lock(mutex_);
  return launches_.empty() ? nullptr : launches_.front()->stream();
}

bool ncclComm::othersWait() const {
  for (int i = 0; i < meeting.ranks(); ++i) {
    if (i != meeting.rank() && meeting.of(i).waits) return true;
  }
  return false;
}
