// UnitBitmap: which units of the arena are taken. Not thread-safe.
//
//   units   ├──64──┼──64──┼──64──┼──64──┤
//   taken      ├───────────────────┤
//   words       0011    0      0    1100    of the words at its ends a bit a unit
//   whole        0      1      1      0     of those between one bit each
//
// So a block of 256 MiB takes a few words, not a thousand.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "sparse_array.hpp"

namespace ebbtide::allocator {

class UnitBitmap {
 public:
  explicit UnitBitmap(std::uint32_t units)
      : words_(units / 64 + 1), whole_(units / 4096 + 1), some_(units / 4096 + 1) {}

  // False, and nothing taken, if any of them is taken.
  bool tryTake(std::uint32_t begin, std::uint32_t units) noexcept {
    if (units == 0) return true;
    const Parts parts = partsOf(begin, units);
    std::uint64_t seen = wordAt(parts.first) & parts.front;
    seen |= wordAt(parts.last) & parts.back;
    forEachBits(parts, [&](std::size_t at, std::uint64_t mask) {
      seen |= (whole_[at] | some_[at]) & mask;
    });
    if (seen != 0) return false;
    set(parts.first, parts.front);
    set(parts.last, parts.back);
    forEachBits(parts, [&](std::size_t at, std::uint64_t mask) { whole_[at] |= mask; });
    return true;
  }

  void clear(std::uint32_t begin, std::uint32_t units) noexcept {
    if (units == 0) return;
    const Parts parts = partsOf(begin, units);
    reset(parts.first, parts.front);
    reset(parts.last, parts.back);
    forEachBits(parts, [&](std::size_t at, std::uint64_t mask) {
      whole_[at] &= ~mask;
      for (std::uint64_t some = some_[at] & mask; some != 0; some &= some - 1) {
        words_[at * 64 + static_cast<std::size_t>(std::countr_zero(some))] = 0;
      }
      some_[at] &= ~mask;
    });
  }

  // How many units from `begin` are alike, up to `end`; `taken` says what they are.
  std::uint32_t runLength(std::uint32_t begin, std::uint32_t end, bool& taken) const noexcept {
    taken = (wordAt(begin / 64) >> (begin % 64) & 1) != 0;
    std::uint32_t at = begin;
    while (at < end) {
      const std::uint64_t word = wordAt(at / 64);
      // The bits from `at` on; ones where it is unlike.
      const std::uint64_t unlike = (taken ? ~word : word) >> (at % 64);
      if (unlike != 0) {
        at += static_cast<std::uint32_t>(std::countr_zero(unlike));
        break;
      }
      at += 64 - at % 64;
    }
    return (at < end ? at : end) - begin;
  }

 private:
  struct Parts {
    std::size_t first, last;    // words; what lies between them is taken whole
    std::uint64_t front, back;  // their units; back 0 where it is one word
  };

  static Parts partsOf(std::uint32_t begin, std::uint32_t units) noexcept {
    const std::uint32_t end = begin + units - 1;  // the last one
    Parts parts{.first = begin / 64,
                .last = end / 64,
                .front = ~std::uint64_t{0} << (begin % 64),
                .back = ~std::uint64_t{0} >> (63 - end % 64)};
    if (parts.first == parts.last) {
      parts.front &= parts.back;
      parts.back = 0;
    }
    return parts;
  }

  // visit(index, mask) for the bits of the words between the first and the last one.
  template <typename Visit>
  static void forEachBits(const Parts& parts, Visit&& visit) noexcept {
    for (std::size_t word = parts.first + 1; word < parts.last;) {
      const std::size_t at = word / 64;
      const std::size_t end = parts.last < (at + 1) * 64 ? parts.last : (at + 1) * 64;
      visit(at, ~std::uint64_t{0} << (word % 64) & ~std::uint64_t{0} >> (63 - (end - 1) % 64));
      word = end;
    }
  }

  static std::uint64_t bit(std::size_t word) noexcept { return std::uint64_t{1} << (word % 64); }
  std::uint64_t wordAt(std::size_t word) const noexcept {
    return (whole_[word / 64] & bit(word)) != 0 ? ~std::uint64_t{0} : words_[word];
  }

  void set(std::size_t word, std::uint64_t mask) noexcept {
    if (mask == 0) return;
    words_[word] |= mask;
    some_[word / 64] |= bit(word);
  }

  void reset(std::size_t word, std::uint64_t mask) noexcept {
    if (mask == 0) return;
    words_[word] = wordAt(word) & ~mask;
    whole_[word / 64] &= ~bit(word);
    if (words_[word] != 0) {
      some_[word / 64] |= bit(word);
    } else {
      some_[word / 64] &= ~bit(word);
    }
  }

  SparseArray<std::uint64_t> words_;         // a bit a unit
  SparseArray<std::uint64_t> whole_, some_;  // a bit a word: taken as one; not 0
};

}  // namespace ebbtide::allocator
