#include "nccl/communication_waits.hpp"

namespace ebbtide::plugin {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

std::uint64_t packed(CommunicationKind kind, std::int32_t peer) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(peer)} << 8 | static_cast<std::uint8_t>(kind);
}

}  // namespace

const char* nameOf(CommunicationKind kind) noexcept {
  switch (kind) {
    case CommunicationKind::kSend:
      return "send";
    case CommunicationKind::kReceive:
      return "receive";
    case CommunicationKind::kAllReduce:
      return "all_reduce";
    case CommunicationKind::kAllGather:
      return "all_gather";
    case CommunicationKind::kReduceScatter:
      return "reduce_scatter";
    case CommunicationKind::kBroadcast:
      return "broadcast";
    case CommunicationKind::kReduce:
      return "reduce";
    case CommunicationKind::kAllToAll:
      return "all_to_all";
    case CommunicationKind::kOther:
      break;
  }
  return "other";
}

void CommunicationWaits::add(const CommunicationWait& wait) noexcept {
  Sum& sum = sums_[static_cast<std::size_t>(wait.kind)];
  sum.operations.fetch_add(1, kRelaxed);
  sum.bytes.fetch_add(wait.bytes, kRelaxed);
  sum.duration_ns.fetch_add(wait.lengthNs(), kRelaxed);

  const std::uint64_t number = added_.fetch_add(1, kRelaxed);
  Place& place = places_[number % kKept];
  const std::uint64_t turn = number / kKept;
  // Whoever has this place's last turn may have been stopped in the middle of it, for as long as
  // all other places took: it is not waited for, and who comes late finds a later turn.
  std::uint64_t before = place.turn.load(kRelaxed);
  do {
    if (before % 2 != 0 || before > 2 * turn) return countLost();
  } while (
      !place.turn.compare_exchange_weak(before, 2 * turn + 1, std::memory_order_acquire, kRelaxed));
  // Release: who reads one of these sees the odd turn afterwards.
  constexpr auto kRelease = std::memory_order_release;
  place.kind_and_peer.store(packed(wait.kind, wait.peer), kRelease);
  place.communicator.store(wait.communicator, kRelease);
  place.bytes.store(wait.bytes, kRelease);
  place.asked_ns.store(wait.asked_ns, kRelease);
  place.begin_ns.store(wait.begin_ns, kRelease);
  place.end_ns.store(wait.end_ns, kRelease);
  place.device_ns.store(wait.device_ns, kRelease);
  place.turn.store(2 * turn + 2, kRelease);
}

CommunicationTotals CommunicationWaits::totals() const noexcept {
  CommunicationTotals all;
  for (std::size_t kind = 0; kind < kCommunicationKinds; ++kind) {
    all.kinds[kind] = {.operations = sums_[kind].operations.load(kRelaxed),
                       .bytes = sums_[kind].bytes.load(kRelaxed),
                       .duration_ns = sums_[kind].duration_ns.load(kRelaxed)};
  }
  all.unseen = unseen_.load(kRelaxed);
  all.lost = lost_.load(kRelaxed);
  return all;
}

CommunicationWaits::Reading CommunicationWaits::read(std::uint64_t number,
                                                     CommunicationWait& out) const noexcept {
  const Place& place = places_[number % kKept];
  const std::uint64_t wanted = 2 * (number / kKept) + 2;
  const std::uint64_t found = place.turn.load(std::memory_order_acquire);
  if (found > wanted) return Reading::kOverwritten;
  if (found < wanted) return Reading::kLater;
  // Acquire: the turn is read again after these.
  constexpr auto kAcquire = std::memory_order_acquire;
  const std::uint64_t kind_and_peer = place.kind_and_peer.load(kAcquire);
  out.kind = static_cast<CommunicationKind>(kind_and_peer & 0xff);
  out.peer = static_cast<std::int32_t>(static_cast<std::uint32_t>(kind_and_peer >> 8));
  out.communicator = place.communicator.load(kAcquire);
  out.bytes = place.bytes.load(kAcquire);
  out.asked_ns = place.asked_ns.load(kAcquire);
  out.begin_ns = place.begin_ns.load(kAcquire);
  out.end_ns = place.end_ns.load(kAcquire);
  out.device_ns = place.device_ns.load(kAcquire);
  return place.turn.load(kRelaxed) == wanted ? Reading::kRead : Reading::kOverwritten;
}

CommunicationWaits::Read CommunicationWaits::since(std::uint64_t& cursor, CommunicationWait* out,
                                                   std::size_t room) const noexcept {
  const std::uint64_t end = added_.load(std::memory_order_acquire);
  Read done;
  if (end > kKept && cursor < end - kKept) {
    done.missed = end - kKept - cursor;
    cursor = end - kKept;
  }
  while (cursor < end && done.copied < room) {
    const Reading reading = read(cursor, out[done.copied]);
    // One that found no place never comes: those behind it are not held up for ever.
    if (reading == Reading::kLater && end - cursor < kKept / 2) break;
    (reading == Reading::kRead ? done.copied : done.missed) += 1;
    ++cursor;
  }
  return done;
}

}  // namespace ebbtide::plugin
