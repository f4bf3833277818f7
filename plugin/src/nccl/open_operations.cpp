#include "nccl/open_operations.hpp"

#include <algorithm>

namespace ebbtide::plugin::nccl {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

// A word: round (24 bits), value (40 bits; of nanoseconds 18 minutes).
constexpr int kValueBits = 40;
constexpr std::uint64_t kValueMask = (std::uint64_t{1} << kValueBits) - 1;

// The value of `progress`: flags, and how many channels were entered and left.
constexpr std::uint64_t kOpen = 1, kClaimed = 2, kLaunched = 4;
constexpr std::uint64_t kOneEntered = std::uint64_t{1} << 4, kOneLeft = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostChannels = 0xffff;

std::uint64_t roundOf(std::uint64_t handle) noexcept {
  return handle / OpenOperations::kPlaces << kValueBits;
}
bool sameRound(std::uint64_t a, std::uint64_t b) noexcept {
  return a >> kValueBits == b >> kValueBits;
}
std::uint64_t enteredIn(std::uint64_t progress) noexcept {
  return progress >> 4 & kMostChannels;
}
std::uint64_t leftIn(std::uint64_t progress) noexcept {
  return progress >> 20 & kMostChannels;
}

// Does the clock's low bits `a` come before `b`, over their wrap?
bool before(std::uint64_t a, std::uint64_t b) noexcept {
  return ((b - a) & kValueMask) - 1 < kValueMask / 2;
}

// Keeps the earlier (later) one of what the word has and `value`; none yet: 0. Another round:
// nothing.
void keep(std::atomic<std::uint64_t>& word, std::uint64_t round, std::uint64_t value,
          bool earlier) noexcept {
  value = std::max<std::uint64_t>(1, value & kValueMask);
  std::uint64_t known = word.load(kRelaxed);
  do {
    if (!sameRound(known, round)) return;
    const std::uint64_t old = known & kValueMask;
    if (old != 0 && (earlier ? !before(value, old) : !before(old, value))) return;
  } while (!word.compare_exchange_weak(known, round | value, kRelease, kRelaxed));
}

// Of the round that `progress` is of; 0: none.
std::uint64_t valueOf(const std::atomic<std::uint64_t>& word, std::uint64_t progress) noexcept {
  const std::uint64_t found = word.load(kAcquire);
  return sameRound(found, progress) ? found & kValueMask : 0;
}

std::uint64_t sinceAsked(std::int64_t now_ns, std::int64_t asked_ns) noexcept {
  return static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(now_ns - asked_ns, 1, static_cast<std::int64_t>(kValueMask / 2)));
}

}  // namespace

OpenOperations::Handle OpenOperations::start(const Operation& operation,
                                             std::int64_t now_ns) noexcept {
  const Handle handle = next_.fetch_add(1, kRelaxed);
  const std::uint64_t round = roundOf(handle);
  Place& place = placeOf(handle);
  std::uint64_t known = place.progress.load(kAcquire);
  if ((known & kOpen) != 0) {
    finish(place, known);
    known = place.progress.load(kAcquire);
  }
  if ((known & (kOpen | kClaimed)) != 0 ||
      !place.progress.compare_exchange_strong(known, round | kClaimed, kAcquire, kRelaxed)) {
    waits_.countLost();
    return 0;
  }
  place.kind_peer_channels.store(
      std::uint64_t{static_cast<std::uint32_t>(operation.peer)} << 32 |
          static_cast<std::uint64_t>(std::clamp<int>(operation.channels, 0, kMostChannels)) << 8 |
          static_cast<std::uint8_t>(operation.kind),
      kRelaxed);
  place.communicator.store(operation.communicator, kRelaxed);
  place.bytes.store(operation.bytes, kRelaxed);
  place.asked_ns.store(now_ns, kRelaxed);
  for (auto* word : {&place.begin, &place.end, &place.device_begin, &place.device_end})
    word->store(round, kRelaxed);
  place.progress.store(round | kOpen, kRelease);
  return handle;
}

// Applies `change` to the progress of an operation that is open still, and ends it where that was
// the last that it waited for.
template <typename Change>
void OpenOperations::change(Handle handle, Change&& change) noexcept {
  Place& place = placeOf(handle);
  std::uint64_t known = place.progress.load(kAcquire), changed = 0;
  do {
    if (!sameRound(known, roundOf(handle)) || (known & kOpen) == 0) return;
    changed = change(known);
  } while (
      !place.progress.compare_exchange_weak(known, changed, std::memory_order_acq_rel, kAcquire));
  const std::uint64_t channels = place.kind_peer_channels.load(kRelaxed) >> 8 & kMostChannels;
  if ((changed & kLaunched) != 0 && channels > 0 && leftIn(changed) >= channels)
    finish(place, changed);
}

void OpenOperations::launched(Handle handle) noexcept {
  change(handle, [](std::uint64_t progress) { return progress | kLaunched; });
}

void OpenOperations::entered(Handle handle, std::int64_t now_ns, std::uint64_t device_ns) noexcept {
  Place& place = placeOf(handle);
  const std::uint64_t round = roundOf(handle);
  keep(place.begin, round, sinceAsked(now_ns, place.asked_ns.load(kRelaxed)), true);
  if (device_ns != 0) keep(place.device_begin, round, device_ns, true);
  change(handle, [](std::uint64_t progress) {
    return enteredIn(progress) < kMostChannels ? progress + kOneEntered : progress;
  });
}

void OpenOperations::leaving(Handle handle, std::uint64_t device_ns) noexcept {
  if (device_ns != 0) keep(placeOf(handle).device_end, roundOf(handle), device_ns, false);
}

void OpenOperations::left(Handle handle, std::int64_t now_ns) noexcept {
  Place& place = placeOf(handle);
  keep(place.end, roundOf(handle), sinceAsked(now_ns, place.asked_ns.load(kRelaxed)), false);
  change(handle, [](std::uint64_t progress) {
    return leftIn(progress) < kMostChannels ? progress + kOneLeft : progress;
  });
}

void OpenOperations::settle(std::int64_t now_ns) noexcept {
  for (Place& place : places_) {
    const std::uint64_t known = place.progress.load(kAcquire);
    const bool all_left = leftIn(known) > 0 && leftIn(known) == enteredIn(known);
    if ((known & kOpen) == 0 || (known & kLaunched) == 0 || !all_left) continue;
    const auto end_ns = static_cast<std::int64_t>(valueOf(place.end, known));
    if (end_ns != 0 && now_ns - place.asked_ns.load(kRelaxed) - end_ns >= kQuietNs)
      finish(place, known);
  }
}

// To the waits with an operation as far as it is known. False: another thread was quicker.
bool OpenOperations::finish(Place& place, std::uint64_t progress) noexcept {
  const std::uint64_t round = progress & ~kValueMask;
  if (!place.progress.compare_exchange_strong(progress, round | kClaimed, std::memory_order_acq_rel,
                                              kRelaxed)) {
    return false;
  }
  const std::uint64_t kind_peer_channels = place.kind_peer_channels.load(kRelaxed);
  CommunicationWait wait{
      .kind = static_cast<CommunicationKind>(kind_peer_channels & 0xff),
      .peer = static_cast<std::int32_t>(static_cast<std::uint32_t>(kind_peer_channels >> 32)),
      .communicator = place.communicator.load(kRelaxed),
      .bytes = place.bytes.load(kRelaxed),
      .asked_ns = place.asked_ns.load(kRelaxed)};
  const std::uint64_t begin = valueOf(place.begin, round), end = valueOf(place.end, round);
  const std::uint64_t device_begin = valueOf(place.device_begin, round);
  const std::uint64_t device_end = valueOf(place.device_end, round);
  place.progress.store(round, kRelease);  // closed; the place may be taken
  if (begin == 0 || end < begin) {
    waits_.countUnseen();
    return true;
  }
  wait.begin_ns = wait.asked_ns + static_cast<std::int64_t>(begin);
  wait.end_ns = wait.asked_ns + static_cast<std::int64_t>(end);
  if (device_begin != 0 && device_end != 0 && before(device_begin, device_end))
    wait.device_ns = static_cast<std::int64_t>((device_end - device_begin) & kValueMask);
  waits_.add(wait);
  return true;
}

}  // namespace ebbtide::plugin::nccl
