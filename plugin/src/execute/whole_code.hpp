// Values of two kinds of words, kept as one bit a word.
#pragma once

#include <cstdint>
#include <optional>

#include "device/bit_code.hpp"

namespace ebbtide::plugin {

// The first code of at most eight bytes a word that encodes all of it; `room(bytes)` gives where
// to.
template <typename Room>
std::optional<BitCode> encodeWhole(const void* data, std::int64_t bytes, const Room& room) {
  for (int widest = 8; widest > 0;) {
    std::optional<BitCode> code = BitCode::guess(data, bytes, widest);
    if (!code || code->encode(data, bytes, room(code->encodedBytes(bytes)))) return code;
    widest = code->word_bytes / 2;
  }
  return std::nullopt;
}

}  // namespace ebbtide::plugin
