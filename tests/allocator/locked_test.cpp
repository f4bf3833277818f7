// Two threads take turns at a state.
#include "locked.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace ebbtide::allocator {
namespace {

struct Turns {
  explicit Turns(int first) : done(first) {}
  int done;
};

TEST(LockedTest, OneThreadAtATimeReachesTheState) {
  constexpr int kEach = 20'000;
  Locked<Turns> turns(5);
  const auto take = [&] {
    for (int i = 0; i < kEach; ++i) ++turns.hold()->done;
  };
  std::thread other(take);
  take();
  other.join();
  const Locked<Turns>& seen = turns;
  EXPECT_EQ(seen.hold()->done, 5 + 2 * kEach);
}

}  // namespace
}  // namespace ebbtide::allocator
