// TorchBlocks over two devices, without torch's interface to them.
#include "cuda/torch_blocks.hpp"

#include <optional>

#include "host_devices.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

class TorchBlocksTest : public ::testing::Test {
 protected:
  TorchBlocksTest() {
    heaps_.init(2);
    blocks_.emplace(heaps_, foreign_, shared_);
  }
  Bytes liveBytes(c10::DeviceIndex device) {
    return heaps_.heap(device).ledger().totals().allocated_bytes;
  }

  HostSource* source_ = new HostSource;  // the heaps'
  DeviceHeaps heaps_{std::unique_ptr<DeviceSource>(source_),
                     [](const DeviceHeap&) { return allocator::kUnlimited; }, nullptr};
  ForeignPools foreign_;
  SharedPages shared_;
  std::optional<TorchBlocks> blocks_;
};

TEST_F(TorchBlocksTest, ABlockIsOfTheCurrentDeviceAndStream) {
  source_->device = 1;
  source_->stream = reinterpret_cast<cudaStream_t>(0x1000);
  void* const block = blocks_->take(1 << 20);
  EXPECT_TRUE(heaps_.heap(1).ledger().isOf(block, source_->stream));
  const auto other = reinterpret_cast<cudaStream_t>(0x2000);
  void* const on_other = blocks_->take(1 << 20, other);
  EXPECT_TRUE(heaps_.heap(1).ledger().isOf(on_other, other));
  source_->device = 0;
  blocks_->free(block);  // from whichever device is current
  blocks_->free(on_other);
  EXPECT_EQ(liveBytes(1), 0);
  EXPECT_EQ(source_->opened, 1);
}

TEST_F(TorchBlocksTest, NoBytesAreNoBlock) {
  EXPECT_EQ(blocks_->take(0), nullptr);
  EXPECT_EQ(blocks_->allocate(0).get(), nullptr);
  EXPECT_NO_THROW(blocks_->free(nullptr));
  EXPECT_EQ(source_->opened, 0);
}

TEST_F(TorchBlocksTest, WhatIsNoBlockOfOursIsAnError) {
  void* const block = blocks_->take(1 << 20);
  int local = 0;
  EXPECT_THROW(blocks_->free(&local), c10::Error);
  EXPECT_THROW(blocks_->rangeAround(&local), c10::Error);
  EXPECT_THROW(blocks_->rangeAround(static_cast<char*>(block) + 512), c10::Error);
  EXPECT_EQ(blocks_->rangeAround(block).begin, block);
  EXPECT_EQ(blocks_->rangeAround(block).bytes, kPage);
  blocks_->free(block);
}

TEST_F(TorchBlocksTest, ADeleterFindsTheInstalledOne) {
  EXPECT_EQ(TorchBlocks::installed(), &*blocks_);
  c10::DataPtr block = blocks_->allocate(1 << 20);
  EXPECT_EQ(block.get_deleter(), TorchBlocks::deleter());
  EXPECT_EQ(liveBytes(0), kMiB);
  block.clear();
  EXPECT_EQ(liveBytes(0), 0);
}

// Tensors of static lifetime end after it.
TEST_F(TorchBlocksTest, WithoutOneABlockStaysAsItIs) {
  c10::DataPtr block = blocks_->allocate(1 << 20);
  blocks_.reset();
  EXPECT_EQ(TorchBlocks::installed(), nullptr);
  block.clear();
  EXPECT_EQ(liveBytes(0), kMiB);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
