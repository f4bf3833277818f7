#include "stream_pool.hpp"

namespace ebbtide::allocator {
namespace {

constexpr Bytes kSmallShare = 8;  // of the addresses

Bytes smallBytes(Bytes bytes) noexcept {
  return roundUp(bytes / kSmallShare, Reservation::kStep / 2);
}

static_assert(Reservation::kMostBytes <= Bytes{ExtentMap::kMostUnits} * kUnitBytes);

}  // namespace

StreamPool::StreamPool(AddressSpace& space, BudgetTracker& tracker, Stream stream,
                       Bytes reserve_bytes, Bytes alignment_bytes)
    : stream_(stream),
      reservation_(space, reserve_bytes),
      large_begin_(reservation_.begin() + smallBytes(reservation_.bytes())),
      small(reservation_.begin(), smallBytes(reservation_.bytes()), alignment_bytes,
            space.pageBytes()),
      large(static_cast<std::uint32_t>((reservation_.bytes() - smallBytes(reservation_.bytes())) /
                                       kUnitBytes),
            static_cast<std::uint32_t>(space.pageBytes() / kUnitBytes)),
      live(tracker) {}

StreamPool::~StreamPool() {
  if (small.liveBytes() > 0 || large.anyLive()) reservation_.keep();
}

}  // namespace ebbtide::allocator
