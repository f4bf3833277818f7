#include "nccl/open_operations.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace ebbtide::plugin::nccl {
namespace {

class OpenOperationsTest : public ::testing::Test {
 protected:
  OpenOperations::Handle start(int channels, std::int64_t now_ns, std::int64_t bytes = 64) {
    return open_->start({.kind = CommunicationKind::kReceive,
                         .peer = 3,
                         .communicator = 77,
                         .bytes = bytes,
                         .channels = channels},
                        now_ns);
  }
  void leave(OpenOperations::Handle handle, std::int64_t now_ns, std::uint64_t device_ns = 0) {
    open_->leaving(handle, device_ns);
    open_->left(handle, now_ns);
  }
  std::vector<CommunicationWait> finished() {
    std::vector<CommunicationWait> out(CommunicationWaits::kKept);
    out.resize(waits_->since(cursor_, out.data(), out.size()).copied);
    return out;
  }

  std::unique_ptr<CommunicationWaits> waits_ = std::make_unique<CommunicationWaits>();
  std::unique_ptr<OpenOperations> open_ = std::make_unique<OpenOperations>(*waits_);
  std::uint64_t cursor_ = 0;
};

// The kernel's first channel is entered at 200, its last left at 900.
TEST_F(OpenOperationsTest, AWaitLastsFromTheFirstChannelToTheLast) {
  const auto handle = start(2, 100);
  open_->launched(handle);
  open_->entered(handle, 200, 0);
  open_->entered(handle, 250, 0);
  leave(handle, 900);
  EXPECT_TRUE(finished().empty()) << "one channel is left";
  leave(handle, 700);
  const auto waits = finished();
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].kind, CommunicationKind::kReceive);
  EXPECT_EQ(waits[0].peer, 3);
  EXPECT_EQ(waits[0].communicator, 77U);
  EXPECT_EQ(waits[0].bytes, 64);
  EXPECT_EQ(waits[0].asked_ns, 100);
  EXPECT_EQ(waits[0].begin_ns, 200);
  EXPECT_EQ(waits[0].end_ns, 900);
  EXPECT_EQ(waits[0].device_ns, 0);
  EXPECT_EQ(waits[0].lengthNs(), 700);
}

// By the device's clock from 5,000 to 5,800, whatever the host saw when it polled; the host's times
// say where.
TEST_F(OpenOperationsTest, TheDevicesClockGivesTheLength) {
  const auto handle = start(2, 100);
  open_->entered(handle, 300, 5010);
  open_->entered(handle, 300, 5000);
  leave(handle, 600, 5800);
  leave(handle, 600, 5700);
  open_->launched(handle);  // the host's thread came last
  const auto waits = finished();
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].device_ns, 800);
  EXPECT_EQ(waits[0].begin_ns, 300);
  EXPECT_EQ(waits[0].end_ns, 600);
}

// The clock's low 40 bits turn over between begin and end.
TEST_F(OpenOperationsTest, TheDevicesClockTurnsOver) {
  const std::uint64_t turn = std::uint64_t{1} << 40;
  const auto handle = start(1, 0);
  open_->launched(handle);
  open_->entered(handle, 10, turn - 300);
  leave(handle, 20, turn + 500);
  const auto waits = finished();
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].device_ns, 800);
}

// Said to use 4 channels, uses 1: over once nothing came for kQuietNs after 500.
TEST_F(OpenOperationsTest, FewerChannelsThanSaidSettle) {
  const auto handle = start(4, 100);
  open_->launched(handle);
  open_->entered(handle, 200, 0);
  leave(handle, 500);
  open_->settle(499 + OpenOperations::kQuietNs);
  EXPECT_TRUE(finished().empty());
  open_->settle(500 + OpenOperations::kQuietNs);
  EXPECT_EQ(finished().size(), 1U);
  open_->entered(handle, 600, 0);  // one more came late: over is over
  leave(handle, 700);
  open_->settle(100 * OpenOperations::kQuietNs);
  EXPECT_TRUE(finished().empty());
  EXPECT_EQ(waits_->totals()[CommunicationKind::kReceive].operations, 1);
}

TEST_F(OpenOperationsTest, WhatIsUnderWayDoesNotSettle) {
  const auto handle = start(0, 100);
  open_->entered(handle, 200, 0);
  open_->entered(handle, 201, 0);
  leave(handle, 300);
  open_->launched(handle);
  open_->settle(100 * OpenOperations::kQuietNs);
  EXPECT_TRUE(finished().empty()) << "a receive may wait for seconds";
  leave(handle, 200 * OpenOperations::kQuietNs);
  open_->settle(300 * OpenOperations::kQuietNs);
  EXPECT_EQ(finished().size(), 1U);
}

// The first operation's place is asked for again kPlaces operations later: it has one channel left
// then, and its handle means nothing any more.
TEST_F(OpenOperationsTest, APlaceIsTakenAgain) {
  const auto first = start(2, 100, 1);
  open_->entered(first, 200, 0);
  leave(first, 300);
  for (std::size_t i = 1; i < OpenOperations::kPlaces; ++i) EXPECT_NE(start(1, 400, 2), 0U);
  EXPECT_TRUE(finished().empty());
  const auto next = start(1, 500, 3);
  const auto waits = finished();
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].bytes, 1);
  EXPECT_EQ(waits[0].end_ns, 300);

  open_->launched(first);
  open_->entered(first, 9000, 0);
  leave(first, 9900);
  EXPECT_TRUE(finished().empty());
  open_->launched(next);
  open_->entered(next, 600, 0);
  leave(next, 700);
  const auto then = finished();
  ASSERT_EQ(then.size(), 1U);
  EXPECT_EQ(then[0].bytes, 3);
  EXPECT_EQ(then[0].begin_ns, 600);
  EXPECT_EQ(then[0].end_ns, 700);
}

// A copy by the copy engines, say: nobody tells its time. It is counted when its place is taken.
TEST_F(OpenOperationsTest, AnOperationWithoutTimesIsCounted) {
  open_->launched(start(1, 100));
  for (std::size_t i = 0; i < OpenOperations::kPlaces; ++i) start(1, 200);
  EXPECT_TRUE(finished().empty());
  EXPECT_EQ(waits_->totals().unseen, 1);
}

// Whatever order the events of some operations come in, each ends once, with the earliest entry and
// the latest leave of its channels.
TEST_F(OpenOperationsTest, AnyOrderOfEventsGivesTheSameWaits) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    struct Pending {
      OpenOperations::Handle handle;
      int to_enter, to_leave, channels;
      bool launched = false;
      std::int64_t begin_ns = 0, end_ns = 0;
    };
    std::int64_t now_ns = 1000 * (round + 1);
    std::vector<Pending> pending;
    for (int i = 0; i < 5; ++i) {
      const int channels = 1 + static_cast<int>(random() % 4);
      pending.push_back({start(channels, now_ns, i), channels, channels, channels});
    }
    std::vector<std::pair<std::int64_t, std::int64_t>> wanted(5);
    for (std::size_t left = pending.size(); left > 0;) {
      auto& one = pending[random() % pending.size()];
      now_ns += 1 + static_cast<std::int64_t>(random() % 9);
      const auto which = random() % 3;
      if (which == 0 && !one.launched) {
        one.launched = true;
        open_->launched(one.handle);
      } else if (which == 1 && one.to_enter > 0) {
        if (one.to_enter-- == one.channels) one.begin_ns = now_ns;
        open_->entered(one.handle, now_ns, 0);
      } else if (which == 2 && one.to_leave > one.to_enter) {
        --one.to_leave;
        one.end_ns = now_ns;
        leave(one.handle, now_ns);
      } else {
        continue;
      }
      if (one.launched && one.to_leave == 0) {
        wanted[static_cast<std::size_t>(&one - pending.data())] = {one.begin_ns, one.end_ns};
        --left;
      }
    }
    const auto waits = finished();
    ASSERT_EQ(waits.size(), 5U);
    for (const auto& wait : waits) {
      EXPECT_EQ(wait.begin_ns, wanted[static_cast<std::size_t>(wait.bytes)].first);
      EXPECT_EQ(wait.end_ns, wanted[static_cast<std::size_t>(wait.bytes)].second);
    }
  }
  EXPECT_EQ(waits_->totals()[CommunicationKind::kReceive].operations, 1500);
  EXPECT_EQ(waits_->totals().lost, 0);
}

}  // namespace
}  // namespace ebbtide::plugin::nccl
