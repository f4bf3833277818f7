// OpenOperations: NCCL's operations between the host's call and their end on the device.
// Torch-free, CUDA-free; no lock, no allocation, nothing throws.
//
//   host thread      start ─ launched                       launched: the host has queued the
//   kernel NCCL's thread            entered ─ left (channel 0)     one pair for each channel of the
//   kernel,
//                               entered ─ left (channel 1)  noticed by polling, in any order
//                            └──── the wait ────┘
//
// Thread rule: any threads, also several at one operation. A handle is a number and never a
// pointer: one of an operation that is over, or whose place another one has, does nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nccl/communication_waits.hpp"

namespace ebbtide::plugin::nccl {

class OpenOperations {
 public:
  // A place may be taken after so many later operations: what it then has goes to the waits.
  static constexpr std::size_t kPlaces = 2048;
  // An operation whose channels have all been left for so long is over, if it was said to have
  // more: NCCL 2.28 names more channels for sends and receives than it uses.
  static constexpr std::int64_t kQuietNs = 1'000'000;

  struct Operation {
    CommunicationKind kind = CommunicationKind::kOther;
    std::int32_t peer = -1;
    std::uint64_t communicator = 0;
    std::int64_t bytes = 0;
    int channels = 0;  // that its kernel uses; 0: not known
  };
  using Handle = std::uint64_t;  // 0: none

  explicit OpenOperations(CommunicationWaits& waits) noexcept : waits_(waits) {}

  Handle start(const Operation& operation, std::int64_t now_ns) noexcept;
  void launched(Handle handle) noexcept;
  // `device_ns` by the device's clock; 0: not known.
  void entered(Handle handle, std::int64_t now_ns, std::uint64_t device_ns) noexcept;
  // A channel is left once: at `left`. Its time by the device's clock comes before it.
  void leaving(Handle handle, std::uint64_t device_ns) noexcept;
  void left(Handle handle, std::int64_t now_ns) noexcept;

  // To the waits with what is over by kQuietNs. For who reads them.
  void settle(std::int64_t now_ns) noexcept;

 private:
  // Words that several threads change carry the round of their place in the upper 24 bits, so that
  // who comes too late changes nothing of the next operation there.
  struct Place {
    std::atomic<std::uint64_t> progress{0};                     // round, state, counts of channels
    std::atomic<std::uint64_t> begin{0}, end{0};                // round, ns since asked_ns
    std::atomic<std::uint64_t> device_begin{0}, device_end{0};  // round, low bits of the clock
    std::atomic<std::uint64_t> kind_peer_channels{0}, communicator{0};
    std::atomic<std::int64_t> bytes{0}, asked_ns{0};
  };

  Place& placeOf(Handle handle) noexcept { return places_[handle % kPlaces]; }
  bool finish(Place& place, std::uint64_t progress) noexcept;
  template <typename Change>
  void change(Handle handle, Change&& change) noexcept;

  CommunicationWaits& waits_;
  std::array<Place, kPlaces> places_{};
  std::atomic<std::uint64_t> next_{kPlaces};  // no handle is 0, no round either
};

}  // namespace ebbtide::plugin::nccl
