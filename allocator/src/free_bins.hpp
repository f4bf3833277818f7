// FreeBins: extents by size; the best fit in constant time.
//
//   units  0 ... 31 │ 32-35 │ 36-39 │ ... │ 60-63 │ 64-71 │ ...     exact, then eighths of a
//   doubling bins   0 ... 31 │  32   │  33   │     │  39   │  40   │
//
// Within a bin the newest comes first. A search looks at kLooks extents of a bin, so the fit is the
// best of these, and never more than an eighth too large where a larger one would do. The links are
// in the records. Not thread-safe: the pool calls it under its lock.
#pragma once

#include <array>

#include "extent.hpp"
#include "sparse_array.hpp"

namespace ebbtide::allocator {

class FreeBins {
 public:
  explicit FreeBins(SparseArray<Extent>& extents) noexcept : extents_(extents) {}

  std::int64_t units() const noexcept { return units_; }
  void add(ExtentId id) noexcept;
  void remove(ExtentId id) noexcept;
  // 0 if there is none.
  ExtentId smallestAtLeast(std::uint32_t units) const noexcept;

  // From large to small, as long as visit(id) returns true.
  template <typename Visit>
  void fromLargest(Visit&& visit) const {
    for (int bin = highestBin(kBins - 1); bin >= 0; bin = bin == 0 ? -1 : highestBin(bin - 1)) {
      for (ExtentId id = heads_[static_cast<std::size_t>(bin)]; id != 0; id = extents_[id].next) {
        if (!visit(id)) return;
      }
    }
  }

 private:
  static constexpr int kExact = 32;
  static constexpr int kBins = 256;  // 32 + 27 doublings of eight
  static constexpr int kLooks = 16;

  static int binOf(std::uint32_t units) noexcept;
  int lowestBin(int from) const noexcept;  // that is not empty, kBins if none
  int highestBin(int from) const noexcept;
  ExtentId bestOf(int bin, std::uint32_t units) const noexcept;

  SparseArray<Extent>& extents_;
  std::array<ExtentId, kBins> heads_{};
  std::array<std::uint64_t, kBins / 64> occupied_{};
  std::int64_t units_ = 0;
};

}  // namespace ebbtide::allocator
