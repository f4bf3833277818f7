#include "device/bit_code.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ebbtide::plugin {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::int64_t kGroup = 64;         // words to one word of bits
constexpr std::int64_t kGuessBytes = 4096;  // looked at by guess()

// 64 words: which of them are `one`, and are all of them `zero` or `one`?
struct Group {
  std::uint64_t ones = 0;
  bool two_kinds = true;
};

template <typename Word>
Word load(const unsigned char* data) {
  Word word;
  std::memcpy(&word, data, sizeof word);
  return word;
}

template <typename Word>
Group encodeGroup(const unsigned char* data, std::int64_t words, Word zero, Word one) {
  std::uint64_t ones = 0;
  std::uint64_t others = 0;
  for (std::int64_t i = 0; i < words; ++i) {
    const Word word = load<Word>(data + i * static_cast<std::int64_t>(sizeof(Word)));
    ones |= static_cast<std::uint64_t>(word == one) << i;
    others |= static_cast<std::uint64_t>(word != one && word != zero);
  }
  return {ones, others == 0};
}

template <typename Word>
void decodeGroup(std::uint64_t ones, std::int64_t words, Word zero, Word one, unsigned char* data) {
  for (std::int64_t i = 0; i < words; ++i) {
    const Word word = ((ones >> i) & 1) != 0 ? one : zero;
    std::memcpy(data + i * static_cast<std::int64_t>(sizeof word), &word, sizeof word);
  }
}

#if defined(__x86_64__)

bool hasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

// Floats, the masks of dropout.
__attribute__((target("avx2"))) Group encodeGroupAvx2(const unsigned char* data, std::uint32_t zero,
                                                      std::uint32_t one) {
  const __m256i zeros = _mm256_set1_epi32(static_cast<int>(zero));
  const __m256i ones = _mm256_set1_epi32(static_cast<int>(one));
  __m256i known = _mm256_set1_epi32(-1);
  std::uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 32L * i));
    const __m256i is_one = _mm256_cmpeq_epi32(words, ones);
    known = _mm256_and_si256(known, _mm256_or_si256(is_one, _mm256_cmpeq_epi32(words, zeros)));
    const auto mask = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(is_one)));
    bits |= static_cast<std::uint64_t>(mask) << (8 * i);
  }
  return {bits, _mm256_movemask_epi8(known) == -1};
}

// Truth values.
__attribute__((target("avx2"))) Group encodeGroupAvx2(const unsigned char* data, std::uint8_t zero,
                                                      std::uint8_t one) {
  const __m256i zeros = _mm256_set1_epi8(static_cast<char>(zero));
  const __m256i ones = _mm256_set1_epi8(static_cast<char>(one));
  __m256i known = _mm256_set1_epi8(-1);
  std::uint64_t bits = 0;
  for (int i = 0; i < 2; ++i) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data + 32L * i));
    const __m256i is_one = _mm256_cmpeq_epi8(words, ones);
    known = _mm256_and_si256(known, _mm256_or_si256(is_one, _mm256_cmpeq_epi8(words, zeros)));
    const auto mask = static_cast<std::uint32_t>(_mm256_movemask_epi8(is_one));
    bits |= static_cast<std::uint64_t>(mask) << (32 * i);
  }
  return {bits, _mm256_movemask_epi8(known) == -1};
}

__attribute__((target("avx2"))) void decodeGroupAvx2(std::uint64_t ones, std::uint32_t zero,
                                                     std::uint32_t one, unsigned char* data) {
  const __m256i zero_words = _mm256_set1_epi32(static_cast<int>(zero));
  const __m256i one_words = _mm256_set1_epi32(static_cast<int>(one));
  const __m256i bit_of_word = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (int i = 0; i < 8; ++i) {
    const __m256i bits = _mm256_set1_epi32(static_cast<int>((ones >> (8 * i)) & 0xff));
    const __m256i is_one = _mm256_cmpeq_epi32(_mm256_and_si256(bits, bit_of_word), bit_of_word);
    const __m256i words = _mm256_blendv_epi8(zero_words, one_words, is_one);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(data + 32L * i), words);
  }
}

#endif

template <typename Word>
Group encodeWords(const unsigned char* data, std::int64_t words, Word zero, Word one) {
#if defined(__x86_64__)
  if constexpr (sizeof(Word) == 4 || sizeof(Word) == 1) {
    if (words == kGroup && hasAvx2()) return encodeGroupAvx2(data, zero, one);
  }
#endif
  return encodeGroup(data, words, zero, one);
}

template <typename Word>
void decodeWords(std::uint64_t ones, std::int64_t words, Word zero, Word one, unsigned char* data) {
#if defined(__x86_64__)
  if constexpr (sizeof(Word) == 4) {
    if (words == kGroup && hasAvx2()) return decodeGroupAvx2(ones, zero, one, data);
  }
#endif
  decodeGroup(ones, words, zero, one, data);
}

template <typename Word>
bool encodeAs(BitCode& code, const unsigned char* data, std::int64_t bytes, unsigned char* bits) {
  const std::int64_t words = bytes / code.word_bytes;
  const auto zero = static_cast<Word>(code.zero);
  for (std::int64_t i = 0; i < words; i += kGroup) {
    const unsigned char* const group = data + i * code.word_bytes;
    const std::int64_t count = std::min(kGroup, words - i);
    Group encoded = encodeWords(group, count, zero, static_cast<Word>(code.one));
    if (!encoded.two_kinds) {
      if (code.one != code.zero) return false;
      for (std::int64_t w = 0; w < count && code.one == code.zero; ++w)
        code.one = load<Word>(group + w * code.word_bytes);
      // What came before is all `zero`, written as ones.
      std::memset(bits, 0, static_cast<std::size_t>(i / 8));
      encoded = encodeWords(group, count, zero, static_cast<Word>(code.one));
      if (!encoded.two_kinds) return false;
    }
    std::memcpy(bits + i / 8, &encoded.ones, static_cast<std::size_t>((count + 7) / 8));
  }
  return true;
}

template <typename Word>
void decodeAs(const BitCode& code, const unsigned char* bits, std::int64_t bytes,
              unsigned char* data) {
  const std::int64_t words = bytes / code.word_bytes;
  for (std::int64_t i = 0; i < words; i += kGroup) {
    const std::int64_t count = std::min(kGroup, words - i);
    std::uint64_t ones = 0;
    std::memcpy(&ones, bits + i / 8, static_cast<std::size_t>((count + 7) / 8));
    decodeWords(ones, count, static_cast<Word>(code.zero), static_cast<Word>(code.one),
                data + i * code.word_bytes);
  }
}

template <typename Word>
std::optional<BitCode> guessAs(const unsigned char* data, std::int64_t bytes) {
  constexpr auto kWordBytes = static_cast<std::int64_t>(sizeof(Word));
  if (bytes < kWordBytes || bytes % kWordBytes != 0) return std::nullopt;
  BitCode code{sizeof(Word), load<Word>(data), load<Word>(data)};
  for (std::int64_t at = 0; at < std::min(bytes, kGuessBytes); at += kWordBytes) {
    const std::uint64_t word = load<Word>(data + at);
    if (word == code.zero || word == code.one) continue;
    if (code.one != code.zero) return std::nullopt;
    code.one = word;
  }
  return code;
}

}  // namespace

// Wider words have fewer bits to keep.
std::optional<BitCode> BitCode::guess(const void* data, std::int64_t bytes, int widest) noexcept {
  const auto* const begin = static_cast<const unsigned char*>(data);
  std::optional<BitCode> code;
  if (widest >= 8) code = guessAs<std::uint64_t>(begin, bytes);
  if (!code && widest >= 4) code = guessAs<std::uint32_t>(begin, bytes);
  if (!code && widest >= 2) code = guessAs<std::uint16_t>(begin, bytes);
  if (!code && widest >= 1) code = guessAs<std::uint8_t>(begin, bytes);
  return code;
}

std::int64_t BitCode::encodedBytes(std::int64_t bytes) const noexcept {
  return (bytes / word_bytes + 7) / 8;
}

bool BitCode::encode(const void* data, std::int64_t bytes, void* bits) noexcept {
  const auto* const from = static_cast<const unsigned char*>(data);
  auto* const to = static_cast<unsigned char*>(bits);
  switch (word_bytes) {
    case 1:
      return encodeAs<std::uint8_t>(*this, from, bytes, to);
    case 2:
      return encodeAs<std::uint16_t>(*this, from, bytes, to);
    case 4:
      return encodeAs<std::uint32_t>(*this, from, bytes, to);
    default:
      return encodeAs<std::uint64_t>(*this, from, bytes, to);
  }
}

void BitCode::decode(const void* bits, std::int64_t bytes, void* data) const noexcept {
  const auto* const from = static_cast<const unsigned char*>(bits);
  auto* const to = static_cast<unsigned char*>(data);
  switch (word_bytes) {
    case 1:
      return decodeAs<std::uint8_t>(*this, from, bytes, to);
    case 2:
      return decodeAs<std::uint16_t>(*this, from, bytes, to);
    case 4:
      return decodeAs<std::uint32_t>(*this, from, bytes, to);
    default:
      return decodeAs<std::uint64_t>(*this, from, bytes, to);
  }
}

}  // namespace ebbtide::plugin
