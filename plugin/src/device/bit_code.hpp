// BitCode: contents made of two kinds of words, such as masks, as one bit a word. Lossless:
// encode() looks at every word. Torch-free, without state.
#pragma once

#include <cstdint>
#include <optional>

namespace ebbtide::plugin {

struct BitCode {
  int word_bytes = 0;  // 1, 2, 4 or 8
  std::uint64_t zero = 0, one = 0;

  // From the first words alone: the widest words of at most `widest` bytes that are of one or two
  // kinds; nothing: none are. When encode() then fails, narrower words may still do.
  static std::optional<BitCode> guess(const void* data, std::int64_t bytes,
                                      int widest = 8) noexcept;

  std::int64_t encodedBytes(std::int64_t bytes) const noexcept;
  // Writes encodedBytes(bytes) bytes to `bits`. A `one` that the guess did not meet is set at the
  // first word that differs. False: there is a third kind of word, and `bits` is of no use.
  bool encode(const void* data, std::int64_t bytes, void* bits) noexcept;
  void decode(const void* bits, std::int64_t bytes, void* data) const noexcept;
};

}  // namespace ebbtide::plugin
