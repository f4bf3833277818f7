// The seams against a set, and what happens when there is no room for more.
#include "seams.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace ebbtide::allocator {
namespace {

constexpr Bytes kPage = 4096;

const void* at(Bytes address) {
  return reinterpret_cast<const void*>(address);
}

TEST(SeamsTest, DoesWhatASetDoes) {
  std::mt19937_64 random(11);
  Seams seams;
  std::set<Bytes> model;
  for (int operation = 0; operation < 100'000; ++operation) {
    const Bytes begin = kPage * (1 + static_cast<Bytes>(random() % 5000));
    const Bytes bytes = kPage * (1 + static_cast<Bytes>(random() % 50));
    if (random() % 2 == 0) {
      seams.addRange(at(begin), bytes);
      model.insert({begin, begin + bytes});
    } else {
      seams.removeRange(at(begin), bytes);
      model.erase(model.lower_bound(begin), model.upper_bound(begin + bytes));
    }
    ASSERT_EQ(seams.room(), Seams::kMost - model.size());
    const auto next = model.upper_bound(begin);
    const Bytes until = next == model.end() ? bytes : std::min(bytes, *next - begin);
    ASSERT_EQ(seams.bytesUntilNext(at(begin), bytes), until);
  }
}

TEST(SeamsTest, WithoutRoomTheyAreForgotten) {
  Seams seams;
  for (Bytes i = 0; i <= static_cast<Bytes>(Seams::kMost); ++i) {
    seams.addRange(at((2 * i + 1) * kPage), kPage);
  }
  EXPECT_EQ(seams.room(), 0U);
  seams.removeRange(at(0), 1'000'000 * kPage);
  EXPECT_EQ(seams.room(), Seams::kMost);
}

}  // namespace
}  // namespace ebbtide::allocator
