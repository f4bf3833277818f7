#include "device/bit_code.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace ebbtide::plugin {
namespace {

using Bytes = std::vector<unsigned char>;

// The first code that encodes all of it, as the executor looks for it; the bits with it.
std::optional<std::pair<BitCode, Bytes>> encoded(const Bytes& data) {
  const auto size = static_cast<std::int64_t>(data.size());
  for (int widest = 8; widest > 0;) {
    auto code = BitCode::guess(data.data(), size, widest);
    if (!code) return std::nullopt;
    Bytes bits(static_cast<std::size_t>(code->encodedBytes(size)), 0xcd);
    if (code->encode(data.data(), size, bits.data())) return std::make_pair(*code, bits);
    widest = code->word_bytes / 2;
  }
  return std::nullopt;
}

Bytes decoded(const std::pair<BitCode, Bytes>& copy, std::size_t bytes) {
  Bytes data(bytes, 0xab);
  copy.first.decode(copy.second.data(), static_cast<std::int64_t>(bytes), data.data());
  return data;
}

template <typename Word>
Bytes drawn(std::mt19937_64& random, std::size_t words, Word zero, Word one) {
  Bytes data(words * sizeof(Word));
  for (std::size_t i = 0; i < words; ++i) {
    const Word word = random() % 2 == 0 ? zero : one;
    std::memcpy(data.data() + i * sizeof word, &word, sizeof word);
  }
  return data;
}

template <typename Word>
void roundTrips(std::mt19937_64& random) {
  for (const std::size_t words : {1, 2, 63, 64, 65, 127, 128, 1000, 2048, 5000, 70001}) {
    SCOPED_TRACE(std::to_string(sizeof(Word)) + " bytes a word, " + std::to_string(words));
    const auto zero = static_cast<Word>(random());
    const auto one = static_cast<Word>(random());
    const Bytes data = drawn<Word>(random, words, zero, one);
    const auto copy = encoded(data);
    ASSERT_TRUE(copy.has_value());
    EXPECT_EQ(decoded(*copy, data.size()), data);
    // One bit for each word at least as wide as that drawn, in whole bytes.
    EXPECT_LE(copy->second.size(), (words + 7) / 8);
  }
}

TEST(BitCode, GivesBackWhatItWasGivenForEveryWidth) {
  std::mt19937_64 random(1);
  roundTrips<std::uint8_t>(random);
  roundTrips<std::uint16_t>(random);
  roundTrips<std::uint32_t>(random);
  roundTrips<std::uint64_t>(random);
}

// Whichever word differs from two kinds: in the vectorised groups of 64 words, in the tail, in the
// first 4 KiB that guess() sees and beyond.
TEST(BitCode, RefusesAThirdKindWhereverItIs) {
  std::mt19937_64 random(2);
  for (const std::size_t words : {65, 200, 1500, 4161}) {
    const Bytes data = drawn<std::uint32_t>(random, words, 0, 0x3f8e38e4);  // 0 and 1 / 0.9F
    for (std::size_t at = 0; at < words; at += words / 13) {
      SCOPED_TRACE(std::to_string(at) + " of " + std::to_string(words));
      Bytes damaged = data;
      damaged[at * 4] ^= 1;  // 0 becomes another small number, or 1 / 0.9F its neighbour
      EXPECT_FALSE(encoded(damaged).has_value());
    }
  }
}

TEST(BitCode, TakesOneKindAndASecondThatComesLate) {
  Bytes data(100000, 7);
  auto copy = encoded(data);
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(decoded(*copy, data.size()), data);
  data.back() = 9;
  copy = encoded(data);
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(decoded(*copy, data.size()), data);
  // By bytes there are two kinds now; as wider words there are three, and the first 4 KiB do not
  // tell.
  data[50000] = 9;
  copy = encoded(data);
  ASSERT_TRUE(copy.has_value());
  EXPECT_EQ(copy->first.word_bytes, 1);
  EXPECT_EQ(decoded(*copy, data.size()), data);
}

TEST(BitCode, SizesAreOneBitAWordInWholeBytes) {
  const BitCode floats{4, 0, 1};
  EXPECT_EQ(floats.encodedBytes(4 * 64), 8);
  EXPECT_EQ(floats.encodedBytes(4 * 65), 9);
  const BitCode flags{1, 0, 1};
  EXPECT_EQ(flags.encodedBytes(12), 2);
}

TEST(BitCode, NothingIsNotGuessed) {
  EXPECT_FALSE(BitCode::guess(nullptr, 0).has_value());
}

}  // namespace
}  // namespace ebbtide::plugin
