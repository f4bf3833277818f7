#include "nccl/communication_waits.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace ebbtide::plugin {
namespace {

constexpr auto kKept = CommunicationWaits::kKept;

CommunicationWait waitOf(std::int64_t begin_ns, std::int64_t end_ns,
                         CommunicationKind kind = CommunicationKind::kReceive) {
  return {.kind = kind, .peer = 1, .bytes = 8, .begin_ns = begin_ns, .end_ns = end_ns};
}

// Every field follows from one number, so that a mixture of two shows.
CommunicationWait numbered(std::int64_t number) {
  return {.kind = static_cast<CommunicationKind>(number % kCommunicationKinds),
          .peer = static_cast<std::int32_t>(number % 1000) - 1,
          .communicator = static_cast<std::uint64_t>(number) * 3,
          .bytes = number * 5,
          .asked_ns = number * 7,
          .begin_ns = number * 11,
          .end_ns = number * 13,
          .device_ns = number * 17};
}

bool isWhole(const CommunicationWait& wait) {
  const CommunicationWait all = numbered(wait.bytes / 5);
  return wait.kind == all.kind && wait.peer == all.peer && wait.communicator == all.communicator &&
         wait.bytes == all.bytes && wait.asked_ns == all.asked_ns &&
         wait.begin_ns == all.begin_ns && wait.end_ns == all.end_ns &&
         wait.device_ns == all.device_ns;
}

class CommunicationWaitsTest : public ::testing::Test {
 protected:
  std::unique_ptr<CommunicationWaits> waits_ = std::make_unique<CommunicationWaits>();
  std::vector<CommunicationWait> out_{kKept};
  std::uint64_t cursor_ = 0;
};

TEST_F(CommunicationWaitsTest, SumsByKind) {
  waits_->add(waitOf(100, 130));
  waits_->add(waitOf(200, 205));
  CommunicationWait send = waitOf(300, 400, CommunicationKind::kSend);
  send.device_ns = 60;  // the device's own clock is the better one
  waits_->add(send);
  const CommunicationTotals totals = waits_->totals();
  EXPECT_EQ(totals[CommunicationKind::kReceive].operations, 2);
  EXPECT_EQ(totals[CommunicationKind::kReceive].bytes, 16);
  EXPECT_EQ(totals[CommunicationKind::kReceive].duration_ns, 35);
  EXPECT_EQ(totals[CommunicationKind::kSend].duration_ns, 60);
  EXPECT_EQ(totals[CommunicationKind::kAllReduce].operations, 0);
  EXPECT_EQ(totals.lost, 0);
}

TEST_F(CommunicationWaitsTest, AReaderGetsEachOneOnce) {
  for (int i = 0; i < 5; ++i) waits_->add(numbered(i));
  EXPECT_EQ(waits_->since(cursor_, out_.data(), 3).copied, 3U);
  EXPECT_EQ(waits_->since(cursor_, out_.data() + 3, 10).copied, 2U);
  EXPECT_EQ(waits_->since(cursor_, out_.data(), 10).copied, 0U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(out_[static_cast<std::size_t>(i)].bytes, i * 5);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(isWhole(out_[static_cast<std::size_t>(i)]));
}

// Of 10 more than are kept the first 10 are gone; the sums have them all.
TEST_F(CommunicationWaitsTest, OldOnesAreOverwritten) {
  const std::int64_t added = kKept + 10;
  for (std::int64_t i = 0; i < added; ++i) waits_->add(numbered(i));
  const auto read = waits_->since(cursor_, out_.data(), out_.size());
  EXPECT_EQ(read.copied, kKept);
  EXPECT_EQ(read.missed, 10U);
  EXPECT_EQ(out_.front().bytes, 10 * 5);
  EXPECT_EQ(out_[kKept - 1].bytes, (added - 1) * 5);
  std::int64_t operations = 0;
  for (const auto& kind : waits_->totals().kinds) operations += kind.operations;
  EXPECT_EQ(operations, added);
}

// Four threads add 60,000 while two read: none is torn, none comes twice to a reader, and what a
// reader got and missed are all.
TEST_F(CommunicationWaitsTest, ThreadsAddAndReadAtOnce) {
  constexpr int kWriters = 4;
  constexpr std::int64_t kEach = 15'000;
  // A wait that found no place holds up those behind it, until half of all places came after it.
  constexpr std::int64_t kAfter = kKept / 2, kAll = kWriters * kEach + kAfter;
  std::atomic<int> writing{kWriters};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      for (std::int64_t i = 0; i < kEach; ++i) waits_->add(numbered(i * kWriters + writer));
      --writing;
    });
  }
  std::array<std::uint64_t, 2> seen{};
  for (auto& total : seen) {
    threads.emplace_back([&] {
      std::vector<CommunicationWait> out(512);
      std::vector<bool> had(kAll);
      std::uint64_t cursor = 0;
      for (bool last = false; !last;) {
        last = over;
        for (;;) {
          const auto read = waits_->since(cursor, out.data(), out.size());
          for (std::size_t i = 0; i < read.copied; ++i) {
            ASSERT_TRUE(isWhole(out[i]));
            const auto number = static_cast<std::size_t>(out[i].bytes / 5);
            ASSERT_FALSE(had[number]);
            had[number] = true;
          }
          total += read.copied + read.missed;
          if (read.copied + read.missed == 0) break;
        }
      }
    });
  }
  while (writing > 0) std::this_thread::yield();
  for (std::int64_t i = kWriters * kEach; i < kAll; ++i) waits_->add(numbered(i));
  over = true;
  for (auto& thread : threads) thread.join();
  for (const std::uint64_t total : seen) EXPECT_EQ(total, kAll);
}

}  // namespace
}  // namespace ebbtide::plugin
