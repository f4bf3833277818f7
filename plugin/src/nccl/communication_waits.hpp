// CommunicationWaits: when this rank was in communication, and for how many bytes. The report has
// its sums; plans read none of it (docs/gpu.md). Torch-free, CUDA-free; no lock, no allocation
// after construction, nothing throws.
//
// Thread rule: any threads add, any threads read, at once. Nobody waits for anybody: old ones are
// overwritten, and who reads them too late is told how many.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ebbtide::plugin {

enum class CommunicationKind : std::uint8_t {
  kSend,
  kReceive,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kOther
};
constexpr std::size_t kCommunicationKinds = 9;

const char* nameOf(CommunicationKind kind) noexcept;  // "all_reduce", in reports

// One operation of this rank. Times: nanoseconds of the steady clock, as the host saw them.
struct CommunicationWait {
  CommunicationKind kind = CommunicationKind::kOther;
  std::int32_t peer = -1;          // of a send or receive: the rank in its communicator
  std::uint64_t communicator = 0;  // the same number on all of its ranks
  std::int64_t bytes = 0;
  std::int64_t asked_ns = 0;              // the library took it up on the host
  std::int64_t begin_ns = 0, end_ns = 0;  // the device was in it, its wait for the peers included
  std::int64_t device_ns = 0;             // the same length by the device's clock; 0: not known

  std::int64_t lengthNs() const noexcept { return device_ns > 0 ? device_ns : end_ns - begin_ns; }
};

struct CommunicationTotals {
  struct Kind {
    std::int64_t operations = 0, bytes = 0;
    std::int64_t duration_ns = 0;  // summed: operations that overlap count twice
  };
  std::array<Kind, kCommunicationKinds> kinds{};
  std::int64_t unseen = 0;  // operations whose time on the device nobody told
  std::int64_t lost = 0;    // what found no place: neither counted nor kept, or not kept

  const Kind& operator[](CommunicationKind kind) const noexcept {
    return kinds[static_cast<std::size_t>(kind)];
  }
};

class CommunicationWaits {
 public:
  static constexpr std::size_t kKept = 8192;  // of a step's: what is older is overwritten

  void add(const CommunicationWait& wait) noexcept;
  void countUnseen() noexcept { unseen_.fetch_add(1, std::memory_order_relaxed); }
  void countLost() noexcept { lost_.fetch_add(1, std::memory_order_relaxed); }

  CommunicationTotals totals() const noexcept;
  struct Read {
    std::size_t copied = 0;
    std::uint64_t missed = 0;  // overwritten, or without a place
  };
  // Copies at most `room` of those added from the cursor-th on, in the order of add(), and moves
  // the cursor behind them. One that is being added ends the copy: the next call has it.
  Read since(std::uint64_t& cursor, CommunicationWait* out, std::size_t room) const noexcept;

 private:
  // `turn`: 2 n + 1 while the n-th turn of this place is written, 2 n + 2 from then on.
  struct Place {
    std::atomic<std::uint64_t> turn{0};
    std::atomic<std::uint64_t> kind_and_peer{0}, communicator{0};
    std::atomic<std::int64_t> bytes{0}, asked_ns{0}, begin_ns{0}, end_ns{0}, device_ns{0};
  };
  struct Sum {
    std::atomic<std::int64_t> operations{0}, bytes{0}, duration_ns{0};
  };

  enum class Reading { kRead, kLater, kOverwritten };
  Reading read(std::uint64_t number, CommunicationWait& out) const noexcept;

  std::array<Place, kKept> places_{};
  std::array<Sum, kCommunicationKinds> sums_{};
  std::atomic<std::uint64_t> added_{0};
  std::atomic<std::int64_t> unseen_{0}, lost_{0};
};

}  // namespace ebbtide::plugin
