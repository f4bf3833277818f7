#include "free_bins.hpp"

#include <bit>

namespace ebbtide::allocator {

int FreeBins::binOf(std::uint32_t units) noexcept {
  if (units < kExact) return static_cast<int>(units);
  const int power = static_cast<int>(std::bit_width(units)) - 1;  // 5 to 31
  return kExact + (power - 5) * 8 + static_cast<int>((units >> (power - 3)) & 7);
}

int FreeBins::lowestBin(int from) const noexcept {
  for (int word = from / 64; word < kBins / 64; ++word) {
    std::uint64_t bits = occupied_[static_cast<std::size_t>(word)];
    if (word == from / 64) bits &= ~std::uint64_t{0} << (from % 64);
    if (bits != 0) return word * 64 + std::countr_zero(bits);
  }
  return kBins;
}

int FreeBins::highestBin(int from) const noexcept {
  for (int word = from / 64; word >= 0; --word) {
    std::uint64_t bits = occupied_[static_cast<std::size_t>(word)];
    if (word == from / 64) bits &= ~std::uint64_t{0} >> (63 - from % 64);
    if (bits != 0) return word * 64 + 63 - std::countl_zero(bits);
  }
  return -1;
}

void FreeBins::add(ExtentId id) noexcept {
  Extent& extent = extents_[id];
  const int bin = binOf(extent.units);
  ExtentId& head = heads_[static_cast<std::size_t>(bin)];
  extent.previous = 0;
  extent.next = head;
  if (head != 0) extents_[head].previous = id;
  head = id;
  occupied_[static_cast<std::size_t>(bin / 64)] |= std::uint64_t{1} << (bin % 64);
  units_ += extent.units;
}

void FreeBins::remove(ExtentId id) noexcept {
  const Extent& extent = extents_[id];
  if (extent.next != 0) extents_[extent.next].previous = extent.previous;
  if (extent.previous != 0) {
    extents_[extent.previous].next = extent.next;
  } else {
    const int bin = binOf(extent.units);
    heads_[static_cast<std::size_t>(bin)] = extent.next;
    if (extent.next == 0) {
      occupied_[static_cast<std::size_t>(bin / 64)] &= ~(std::uint64_t{1} << (bin % 64));
    }
  }
  units_ -= extent.units;
}

ExtentId FreeBins::bestOf(int bin, std::uint32_t units) const noexcept {
  ExtentId best = 0;
  int looks = 0;
  for (ExtentId id = heads_[static_cast<std::size_t>(bin)]; id != 0 && looks < kLooks;
       id = extents_[id].next, ++looks) {
    const std::uint32_t here = extents_[id].units;
    if (here == units) return id;
    if (here > units && (best == 0 || here < extents_[best].units)) best = id;
  }
  return best;
}

ExtentId FreeBins::smallestAtLeast(std::uint32_t units) const noexcept {
  const int own = binOf(units);
  if (const ExtentId best = bestOf(own, units)) return best;
  if (own + 1 == kBins) return 0;
  const int bin = lowestBin(own + 1);
  return bin == kBins ? 0 : bestOf(bin, units);
}

}  // namespace ebbtide::allocator
