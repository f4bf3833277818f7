#include "out_of_memory/out_of_memory.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "ebbtide/allocator/device_memory.hpp"
#include "ebbtide/allocator/host_address_space.hpp"

namespace ebbtide::plugin {
namespace {

using allocator::Bytes;
using allocator::Stream;

constexpr Bytes kMiB = Bytes{1} << 20;

// Of a budget of 64 MiB 40 live, 4 more are in pages that no block can have whole; 20 are free.
OutOfMemory onTheHost() {
  return {.request = {.bytes = 30 * kMiB, .by = "aten::mm", .block_bytes = 30 * kMiB},
          .device = {.total_bytes = 1024 * kMiB},
          .budget = {.bytes = 64 * kMiB, .smallest_feasible_bytes = 32 * kMiB},
          .memory = {.mapped_bytes = 50 * kMiB,
                     .live_bytes = 40 * kMiB,
                     .stuck_bytes = 4 * kMiB,
                     .free_bytes = 24 * kMiB,
                     .largest_free_bytes = 20 * kMiB,
                     .live_by_op = {{"aten::mm", 3, 30 * kMiB}, {"the rest", 0, 10 * kMiB}}},
          .first_deviation = allocator::PlanDeviation{6, 2 * kMiB, 30 * kMiB}};
}

TEST(OutOfMemoryTest, FragmentationIsWhatTheLargestRunDoesNotHave) {
  OutOfMemory facts = onTheHost();
  EXPECT_DOUBLE_EQ(fragmentation(facts), 1.0 - 20.0 / 24.0);
  facts.memory.free_bytes = facts.memory.largest_free_bytes = 0;
  EXPECT_EQ(fragmentation(facts), 0);
}

// 40 live + 4 that no block can have + 30; of a GPU also what others hold, and what waits for
// other streams.
TEST(OutOfMemoryTest, ABudgetThatFitsHoldsTheRequestBesideWhatLives) {
  OutOfMemory facts = onTheHost();
  EXPECT_EQ(budgetThatFits(facts), 74 * kMiB);
  facts.budget.margin_bytes = 2 * kMiB;
  facts.memory.awaiting_bytes = 3 * kMiB;
  EXPECT_EQ(budgetThatFits(facts), 79 * kMiB);
  facts.request.block_bytes = allocator::kUnlimited;
  EXPECT_EQ(budgetThatFits(facts), allocator::kUnlimited);
}

TEST(OutOfMemoryTest, AllThatIsKnownIsSaidInTheseWords) {
  EXPECT_EQ(
      describe(onTheHost()),
      "ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory: 30.0 MiB asked for "
      "by aten::mm.\n"
      "Budget 64.0 MiB; 50.0 MiB mapped, 40.0 MiB in live blocks; 24.0 MiB free, largest "
      "run 20.0 MiB (fragmentation 17%).\n"
      "Live blocks, by what made them:\n"
      "  30.0 MiB  aten::mm, 3 blocks\n"
      "  10.0 MiB  the rest\n"
      "The step first left the order that its addresses were placed for at large block 7: "
      "2.0 MiB expected, 30.0 MiB asked for.\n"
      "This allocation alone needs at least EBBTIDE_BUDGET=74MiB; what follows may need more: "
      "EBBTIDE=1 measures a whole run. (For the steps before it: EBBTIDE_BUDGET=32MiB.) "
      "EBBTIDE_ON_INFEASIBLE=best-effort goes over the budget instead.");
}

TEST(OutOfMemoryTest, ADiskThatIsFullIsNamed) {
  OutOfMemory facts = onTheHost();
  facts.spill_error =
      "cannot write to the spill file in /spills: No space left on device (errno 28)";
  const std::string text = describe(facts);
  EXPECT_NE(text.find("\nNothing can be spilled: " + facts.spill_error +
                      ". Make room there, or name another folder: EBBTIDE_SPILL_DIR."),
            std::string::npos)
      << text;
}

TEST(OutOfMemoryTest, WhatIsNotKnownIsNotSaid) {
  OutOfMemory facts = onTheHost();
  facts.request.by.clear();
  facts.memory.live_by_op.clear();
  facts.first_deviation.reset();
  facts.budget.smallest_feasible_bytes = 0;
  EXPECT_EQ(
      describe(facts),
      "ebbtide: out of memory. DefaultCPUAllocator: can't allocate memory: 30.0 MiB asked for.\n"
      "Budget 64.0 MiB; 50.0 MiB mapped, 40.0 MiB in live blocks; 24.0 MiB free, largest "
      "run 20.0 MiB (fragmentation 17%).\n"
      "This allocation alone needs at least EBBTIDE_BUDGET=74MiB; what follows may need more: "
      "EBBTIDE=1 measures a whole run. "
      "EBBTIDE_ON_INFEASIBLE=best-effort goes over the budget instead.");
}

// Half a byte more than 73 MiB would do: the setting is in whole MiB.
TEST(OutOfMemoryTest, TheSettingIsRoundedUp) {
  OutOfMemory facts = onTheHost();
  facts.memory.live_bytes -= kMiB - 1;
  EXPECT_NE(describe(facts).find("EBBTIDE_BUDGET=74MiB"), std::string::npos) << describe(facts);
}

// As a step may while the budget that trains is looked for.
TEST(OutOfMemoryTest, WhereItMayGoOverTheBudgetTheMachineIsFullOrTheSystemRefuses) {
  OutOfMemory facts = onTheHost();
  facts.budget.overrun_limit_bytes = facts.memory.mapped_bytes + facts.request.block_bytes - 1;
  std::string text = describe(facts);
  EXPECT_NE(text.find("needs at least EBBTIDE_BUDGET=74MiB; what follows may need more: EBBTIDE=1 "
                      "measures a whole run. It "
                      "may go over the budget, but the machine, or its control group, is full"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("best-effort"), std::string::npos) << text;
  ++facts.budget.overrun_limit_bytes;  // there would be room for it
  text = describe(facts);
  EXPECT_NE(text.find("It may go over the budget, but the system has no memory for it"),
            std::string::npos)
      << text;
}

TEST(OutOfMemoryTest, GrowthIsSaidWithTheBudgetForMoreSteps) {
  OutOfMemory facts = onTheHost();
  facts.growth = {.judged_step = 3,
                  .over_bytes = 5 * kMiB,
                  .per_step_bytes = 2 * kMiB,
                  .budget_bytes = 80 * kMiB,
                  .steps = 100,
                  .budget_for_steps_bytes = 280 * kMiB - 1};
  std::string text = describe(facts);
  EXPECT_NE(text.find("\nWhat lives when a step begins grows by 2.0 MiB a step since step 3. "
                      "For 100 more such steps try EBBTIDE_BUDGET=280MiB."),
            std::string::npos)
      << text;
  facts.growth.at_once = true;
  text = describe(facts);
  EXPECT_NE(
      text.find(" has just grown by 2.0 MiB in one step. For such a step try "
                "EBBTIDE_BUDGET=80MiB; for 100 more that grow as much, EBBTIDE_BUDGET=280MiB."),
      std::string::npos)
      << text;
  facts.growth.steps = 0;  // no budget does for one more
  text = describe(facts);
  EXPECT_NE(text.find("\nThis step began with 5.0 MiB more than step 3, by which the budget was "
                      "judged: try EBBTIDE_BUDGET=80MiB."),
            std::string::npos)
      << text;
  facts.growth.over_bytes = 0;
  EXPECT_EQ(describe(facts).find("such"), std::string::npos);
}

TEST(OutOfMemoryTest, WhereTheBudgetHasRoomTheSystemIsShort) {
  OutOfMemory facts = onTheHost();
  facts.budget.bytes = 74 * kMiB;
  std::string text = describe(facts);
  EXPECT_NE(text.find("It is the system that has no memory"), std::string::npos) << text;
  EXPECT_EQ(text.find("best-effort"), std::string::npos) << text;
  facts.budget.bytes = allocator::kUnlimited;
  text = describe(facts);
  EXPECT_NE(text.find("No budget is set; 50.0 MiB mapped"), std::string::npos) << text;
  EXPECT_NE(text.find("It is the system that has no memory"), std::string::npos) << text;
}

TEST(OutOfMemoryTest, NoBudgetIsNamedThatTheMachineDoesNotHave) {
  OutOfMemory facts = onTheHost();
  facts.device.total_bytes = 73 * kMiB;
  EXPECT_NE(describe(facts).find("does not fit into this machine's 73.0 MiB"), std::string::npos);
  facts.device.index = 1;
  EXPECT_NE(describe(facts).find("does not fit into this device's 73.0 MiB"), std::string::npos);
}

// 74 MiB, as above. Where no block is so large there is no figure.
TEST(OutOfMemoryTest, WhatDoesNotFitIsToldWithWhatItNeedsAndWhoseLimitThatIs) {
  OutOfMemory facts = onTheHost();
  facts.device.total_bytes = 73 * kMiB;
  facts.device.total_is_of_group = true;
  EXPECT_NE(describe(facts).find(
                "\nIt does not fit into the 73.0 MiB that this process's control group (container, "
                "job) may use beside what is live now. This allocation alone needs at least 74.0 "
                "MiB; what "
                "follows may need more. (For the steps before it: EBBTIDE_BUDGET=32MiB.)"),
            std::string::npos)
      << describe(facts);
  facts.request.block_bytes = allocator::kUnlimited;
  EXPECT_NE(describe(facts).find("beside what is live now. (For the steps"), std::string::npos)
      << describe(facts);
}

TEST(OutOfMemoryTest, OfAGpuItBeginsAsTorchsMessageDoes) {
  OutOfMemory facts = onTheHost();
  facts.device.index = 0;
  facts.request.by.clear();
  facts.device.free_bytes = 100 * kMiB;
  facts.budget.margin_bytes = 2 * kMiB;
  facts.memory.awaiting_bytes = kMiB;
  const std::string text = describe(facts);
  EXPECT_TRUE(
      text.starts_with("CUDA out of memory. Tried to allocate 30.0 MiB. GPU 0 has a total "
                       "capacity of 1.00 GiB of which 100.0 MiB is free.\n"
                       "Budget 64.0 MiB (2.0 MiB of it in use outside of PyTorch's "
                       "allocator); 50.0 MiB mapped, 40.0 MiB in live blocks, 1.0 MiB "
                       "freed but in use by other streams; 24.0 MiB free"))
      << text;
  // 40 + 1 + 4 + 2 + 30
  EXPECT_NE(text.find("needs at least a budget of 77MiB;"), std::string::npos) << text;
}

class LiveSharesTest : public ::testing::Test {
 protected:
  ~LiveSharesTest() override {
    for (void* const block : blocks_) memory_.deallocate(block);
  }
  void* allocate(Bytes bytes) {
    blocks_.push_back(memory_.allocate(static_cast<std::size_t>(bytes), Stream::kDefault));
    return blocks_.back();
  }

  allocator::DeviceMemory memory_{allocator::makeHostAddressSpace(),
                                  allocator::makeHostEvents(),
                                  {.reserve_bytes = Bytes{1} << 30}};
  std::vector<void*> blocks_;
  LiveShares shares_{memory_};
};

TEST_F(LiveSharesTest, TheLargestComeFirstAndTheRestLast) {
  for (int i = 0; i < 3; ++i) shares_.add(allocate(kMiB), "small");
  shares_.add(allocate(8 * kMiB), "large");
  shares_.nameRest("before");
  const auto shares = shares_.largest(5, 16 * kMiB);
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0].made_by, "large");
  EXPECT_EQ(shares[0].blocks, 1);
  EXPECT_EQ(shares[1].made_by, "small");
  EXPECT_EQ(shares[1].blocks, 3);
  EXPECT_EQ(shares[1].bytes, 3 * kMiB);
  EXPECT_EQ(shares[2].made_by, "before");
  EXPECT_EQ(shares[2].bytes, 5 * kMiB);  // 16 - 8 - 3
}

TEST_F(LiveSharesTest, ABlockIsOfWhoNamesItFirst) {
  void* const block = allocate(kMiB);
  shares_.add(block, "conv");
  shares_.add(block, "relu_");
  const auto shares = shares_.largest(5, kMiB);
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_EQ(shares[0].made_by, "conv");
  EXPECT_EQ(shares[0].bytes, kMiB);
}

TEST_F(LiveSharesTest, WhatIsNoLiveBlockIsPassedOver) {
  void* const block = allocate(kMiB);
  int foreign = 0;
  shares_.add(nullptr, "nothing");
  shares_.add(&foreign, "foreign");
  shares_.add(static_cast<char*>(block) + 4096, "inside");
  memory_.deallocate(block);
  shares_.add(block, "freed");
  blocks_.clear();
  EXPECT_TRUE(shares_.largest(5, 0).empty());
}

// Two are told; the third, and what is less than a hundredth of 20 MiB, are the others.
TEST_F(LiveSharesTest, TheOthersAreOneShare) {
  for (Bytes size = 1; size <= 3; ++size) {
    shares_.add(allocate(size * kMiB), "op " + std::to_string(size));
  }
  shares_.add(allocate(kMiB / 8), "tiny");
  auto shares = shares_.largest(2, 20 * kMiB);
  ASSERT_EQ(shares.size(), 4U);
  EXPECT_EQ(shares[0].made_by, "op 3");
  EXPECT_EQ(shares[1].made_by, "op 2");
  EXPECT_EQ(shares[2].made_by, "others of this step");
  EXPECT_EQ(shares[2].blocks, 2);
  EXPECT_EQ(shares[2].bytes, kMiB + kMiB / 8);
  EXPECT_EQ(shares[3].bytes, 20 * kMiB - 6 * kMiB - kMiB / 8);
  shares = shares_.largest(5, 20 * kMiB);
  ASSERT_EQ(shares.size(), 5U);
  EXPECT_EQ(shares[3].bytes, kMiB / 8);
}

}  // namespace
}  // namespace ebbtide::plugin
