#include "base/address_map.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace ebbtide::plugin {
namespace {

using Shared = std::shared_ptr<int>;

const void* address(std::uintptr_t number) {
  return reinterpret_cast<const void*>(64 * number);
}

TEST(AddressMap, FindsWhatWasAdded) {
  AddressMap<int> map;
  EXPECT_EQ(map.find(address(1)), nullptr);
  EXPECT_FALSE(map.erase(address(1)));
  map.add(address(1), 10);
  map.add(address(2), 20);
  ASSERT_NE(map.find(address(1)), nullptr);
  EXPECT_EQ(*map.find(address(1)), 10);
  EXPECT_EQ(*map.find(address(2)), 20);
  EXPECT_EQ(map.find(address(3)), nullptr);
  EXPECT_EQ(map.size(), 2u);
  EXPECT_EQ(map.take(address(1)), 10);
  EXPECT_EQ(map.take(address(1)), std::nullopt);
  EXPECT_EQ(map.find(address(1)), nullptr);
  EXPECT_EQ(map.size(), 1u);
}

TEST(AddressMap, PutsInPlaceOfWhatWasThere) {
  AddressMap<int> map;
  map.put(address(1), 10);
  map.put(address(1), 11);
  EXPECT_EQ(*map.find(address(1)), 11);
  EXPECT_EQ(map.size(), 1u);
}

// Values are destroyed once, and the moves that erasing takes lose none: each has one owner.
TEST(AddressMap, OwnsItsValues) {
  std::vector<Shared> values;
  for (int i = 0; i < 500; ++i) values.push_back(std::make_shared<int>(i));
  {
    AddressMap<Shared> map;
    for (int i = 0; i < 500; ++i) map.add(address(i + 1), Shared(values[i]));
    for (int i = 0; i < 500; i += 2) EXPECT_TRUE(map.erase(address(i + 1)));
    for (int i = 0; i < 500; ++i) EXPECT_EQ(values[i].use_count(), i % 2 == 0 ? 1 : 2) << i;
    AddressMap<Shared> moved = std::move(map);
    EXPECT_TRUE(map.empty());
    EXPECT_EQ(**moved.find(address(2)), 1);
    moved.clear();
    EXPECT_EQ(values[1].use_count(), 1);
    EXPECT_GE(moved.capacity(), 1000u);  // 500 take half of the places
    moved.add(address(7), Shared(values[7]));
  }
  for (const Shared& value : values) EXPECT_EQ(value.use_count(), 1);
}

TEST(AddressMap, VisitsAndErasesByValue) {
  AddressMap<int> map;
  for (int i = 1; i <= 300; ++i) map.add(address(i), int(i));
  map.eraseIf([](int value) { return value % 3 != 0; });
  int sum = 0;
  map.forEach([&sum](const void* at, int value) {
    EXPECT_EQ(at, address(value));
    sum += value;
  });
  EXPECT_EQ(map.size(), 100u);
  EXPECT_EQ(sum, 3 * 100 * 101 / 2);  // 3 + 6 + … + 300
}

// Against std::map, of so few addresses that most come and go often.
TEST(AddressMap, DoesWhatAMapDoes) {
  std::mt19937 random(1);
  AddressMap<int> map;
  std::map<const void*, int> expected;
  for (int i = 0; i < 100'000; ++i) {
    const void* const at = address(1 + random() % 97);
    if (random() % 2 == 0) {
      map.put(at, int(i));
      expected[at] = i;
    } else {
      EXPECT_EQ(map.erase(at), expected.erase(at) == 1);
    }
    const void* const asked = address(1 + random() % 97);
    const auto known = expected.find(asked);
    const int* const found = map.find(asked);
    ASSERT_EQ(found != nullptr, known != expected.end()) << i;
    ASSERT_TRUE(found == nullptr || *found == known->second) << i;
    ASSERT_EQ(map.size(), expected.size());
  }
}

}  // namespace
}  // namespace ebbtide::plugin
