// Where the ranks of a communicator meet: a shared-memory object that is named by the unique id and
// is unlinked when the last has come, and a file in memory of each rank with what it sends.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emulated_nccl {

using Clock = std::chrono::steady_clock;

// What a rank asks for; all ranks have to ask for the same.
struct Asked {
  int kind = 0, type = 0, operation = 0, root = 0;
  std::uint64_t count = 0;
  bool operator==(const Asked&) const = default;
};

// Of one rank, written by it alone. A rank that has published its n-th has read all of the others'
// (n-2)-th: places are used by turns.
struct alignas(64) Rank {
  std::atomic<int> process{0};
  int file = -1;                            // its number in that process
  std::atomic<std::uint64_t> published{0};  // collectives that it has come to
  std::array<Asked, 2> asked;
  std::array<double, 2> clock{};        // ns of virtual time at which it came
  std::atomic<std::uint64_t> split{0};  // likewise of splits, which the hosts wait for
  std::array<int, 2> color{}, key{};
  std::atomic<bool> waits{false};  // a task of it waits for others
  std::atomic<bool> gone{false};   // destroyed or aborted
};

// From one rank to another: one message at a time.
struct alignas(64) Channel {
  std::atomic<std::uint64_t> sent{0}, received{0};
  std::uint64_t bytes = 0;
  double clock = 0;  // ns of virtual time
};

class Meeting {
 public:
  // Waits for all ranks: for the time limit, and for two minutes at least. `problem` tells who is
  // missing then, or that one has died.
  Meeting(const std::string& name, int rank, int ranks);
  Meeting(const Meeting&) = delete;

  const std::string& problem() const { return problem_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Rank& own() const { return of(rank_); }
  Rank& of(int rank) const;
  Channel& channel(int from, int to) const;

  // Whether a rank that has not come yet never will.
  bool lost(int rank) const;
  // Into this rank's file, from a rank's file. False: the device's memory faulted.
  bool write(int place, const void* from, std::size_t bytes) const;
  bool read(int rank, int place, std::size_t offset, void* into, std::size_t bytes) const;
  static int placeOf(std::uint64_t collective) { return static_cast<int>(collective % 2); }
  static int placeOfMessagesTo(int rank) { return 2 + rank; }

 private:
  struct Header;
  bool openObject();
  bool openFiles();
  bool await(const std::atomic<int>& count, Clock::time_point until, const char* what);

  std::string name_, problem_;
  int rank_ = 0, ranks_ = 0;
  Header* header_ = nullptr;  // stays mapped: what is captured may refer to it
  std::vector<int> files_;
};

// How long a rank waits for others in a call: EMULATED_GPU_NCCL_SECONDS. A meeting may wait longer.
Clock::duration timeLimit();

}  // namespace emulated_nccl
