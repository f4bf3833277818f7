#include "ebbtide/allocator/cuda/address_space.hpp"

#include "fake_driver.hpp"

namespace ebbtide::allocator::cuda::test {
namespace {

char* bytesAt(void* begin, Bytes offset) {
  return static_cast<char*>(begin) + offset;
}

class CudaAddressSpaceTest : public FakeGpuTest {
 protected:
  CudaAddressSpaceTest() : space_(open()) {
    begin_ = space_.reserve(8 * kPage);
    EXPECT_NE(begin_, nullptr);
  }
  ~CudaAddressSpaceTest() override {
    space_.release(begin_, 8 * kPage);
    EXPECT_TRUE(fake_.mappings.empty());
    EXPECT_TRUE(fake_.reservations.empty());
    EXPECT_TRUE(fake_.handles.empty()) << "memory was lost";
  }

  CudaAddressSpace space_;
  void* begin_ = nullptr;
};

TEST_F(CudaAddressSpaceTest, PagesAreThoseOfTheDevice) {
  EXPECT_EQ(space_.pageBytes(), kPage);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin_) % kPage, 0U);
}

TEST_F(CudaAddressSpaceTest, EachPageIsMemoryOfItsOwnWithAccessForTheDevice) {
  ASSERT_TRUE(space_.map(begin_, 3 * kPage));
  ASSERT_EQ(fake_.mappings.size(), 3U);
  for (const auto& [at, mapping] : fake_.mappings) EXPECT_EQ(mapping.readers, std::set<int>{0});
  EXPECT_EQ(fake_.usedBytes(), 3 * kPage);
  EXPECT_EQ(fake_.last_properties.allocFlags.gpuDirectRDMACapable, 1);
  EXPECT_EQ(fake_.last_properties.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  EXPECT_EQ(fake_.count("setAccess"), 1) << "once for the range";
}

TEST_F(CudaAddressSpaceTest, UnmapsOtherPiecesThanItMapped) {
  ASSERT_TRUE(space_.map(begin_, 2 * kPage));
  ASSERT_TRUE(space_.map(bytesAt(begin_, 2 * kPage), 2 * kPage));
  space_.unmap(bytesAt(begin_, kPage), 2 * kPage);  // the second of the one, the first of the other
  EXPECT_EQ(fake_.usedBytes(), 2 * kPage);
  ASSERT_TRUE(space_.map(bytesAt(begin_, kPage), 2 * kPage));
  EXPECT_EQ(fake_.usedBytes(), 4 * kPage);
}

TEST_F(CudaAddressSpaceTest, ADriverThatUnmapsOneMappingAtATimeIsServedPageByPage) {
  driver_.pages.unmap = [](CUdeviceptr at, std::size_t bytes) {
    return bytes == static_cast<std::size_t>(kPage) ? unmap(at, bytes) : CUDA_ERROR_INVALID_VALUE;
  };
  ASSERT_TRUE(space_.map(begin_, 3 * kPage));
  space_.unmap(begin_, 3 * kPage);
  EXPECT_EQ(fake_.usedBytes(), 0);
}

TEST_F(CudaAddressSpaceTest, WhereMemoryRunsOutNothingIsMapped) {
  fake_.capacity_bytes = 2 * kPage;
  EXPECT_FALSE(space_.map(begin_, 3 * kPage));
  EXPECT_EQ(fake_.usedBytes(), 0);
  EXPECT_TRUE(fake_.mappings.empty());
  EXPECT_TRUE(space_.map(begin_, 2 * kPage)) << "the addresses are good still";
}

TEST_F(CudaAddressSpaceTest, WhatTheDriverRefusesLeavesNothingBehind) {
  for (const char* call : {"create", "map", "setAccess"}) {
    fake_.refused = {call};
    EXPECT_FALSE(space_.map(begin_, 2 * kPage)) << call;
    EXPECT_EQ(fake_.usedBytes(), 0) << call;
  }
  fake_.refused = {"addressReserve"};
  EXPECT_EQ(space_.reserve(kPage), nullptr);
  fake_.refused.clear();
}

TEST_F(CudaAddressSpaceTest, APeerSeesThePagesBeforeAndAfter) {
  ASSERT_TRUE(space_.map(begin_, kPage));
  ASSERT_TRUE(space_.allowPeer(1));
  ASSERT_TRUE(space_.map(bytesAt(begin_, 2 * kPage), kPage));
  ASSERT_EQ(fake_.mappings.size(), 2U);
  for (const auto& [at, mapping] : fake_.mappings) {
    EXPECT_EQ(mapping.readers, (std::set<int>{0, 1}));
  }
  const int granted = fake_.count("setAccess");
  EXPECT_TRUE(space_.allowPeer(1));
  EXPECT_EQ(fake_.count("setAccess"), granted) << "once is enough";
}

TEST_F(CudaAddressSpaceTest, AReleaseTakesThePagesAlong) {
  void* other = space_.reserve(4 * kPage);
  ASSERT_TRUE(space_.map(bytesAt(other, kPage), 2 * kPage));
  space_.release(other, 4 * kPage);
  EXPECT_EQ(fake_.usedBytes(), 0);
  EXPECT_EQ(fake_.reservations.size(), 1U) << "the test's own";
}

// A page's file descriptor here is one of /dev/null; its number is not what counts.
TEST_F(CudaAddressSpaceTest, PagesGoToAnotherProcessOneByOne) {
  driver_.pages.exportHandle = [](void* file, CUmemGenericAllocationHandle,
                                  CUmemAllocationHandleType, unsigned long long) {
    *static_cast<int*>(file) = 77;
    return CUDA_SUCCESS;
  };
  driver_.pages.importHandle = [](CUmemGenericAllocationHandle* handle, void*,
                                  CUmemAllocationHandleType) {
    *handle = gpu->next_handle++;
    gpu->handles[*handle] = 1;
    return CUDA_SUCCESS;
  };
  ASSERT_TRUE(space_.map(begin_, 4 * kPage));
  // From the middle of page 1 to the middle of page 2: two pages.
  const auto files = space_.exportPages(bytesAt(begin_, kPage + kPage / 2), kPage);
  ASSERT_TRUE(files.has_value());
  EXPECT_EQ(files->size(), 2U);
  EXPECT_EQ(fake_.usedBytes(), 4 * kPage) << "no handle is kept";

  void* there = space_.importPages(*files);
  ASSERT_NE(there, nullptr);
  EXPECT_EQ(fake_.usedBytes(), 6 * kPage);
  ASSERT_TRUE(space_.allowPeer(1));
  for (const auto& [at, mapping] : fake_.mappings) {
    EXPECT_EQ(mapping.readers, (std::set<int>{0, 1})) << "those of the other process, too";
  }
  space_.release(there, 2 * kPage);
  EXPECT_EQ(fake_.usedBytes(), 4 * kPage);

  fake_.refused = {"map"};
  EXPECT_EQ(space_.importPages(*files), nullptr);
  fake_.refused.clear();
  EXPECT_EQ(fake_.usedBytes(), 4 * kPage);
}

TEST_F(FakeGpuTest, ADeviceThatCannotShareSaysSo) {
  fake_.shareable = false;
  fake_.rdma = false;
  CudaAddressSpace space(open());
  void* begin = space.reserve(kPage);
  ASSERT_TRUE(space.map(begin, kPage));
  EXPECT_EQ(fake_.last_properties.requestedHandleTypes, CU_MEM_HANDLE_TYPE_NONE);
  EXPECT_EQ(fake_.last_properties.allocFlags.gpuDirectRDMACapable, 0);
  EXPECT_FALSE(space.exportPages(begin, kPage).has_value());
  space.release(begin, kPage);
}

TEST_F(FakeGpuTest, WhatTheSystemForbidsIsNotAskedForAgain) {
  fake_.refused = {"create shareable"};
  const Device device = open();
  EXPECT_FALSE(device.shareable);
  EXPECT_TRUE(device.rdma);
  EXPECT_TRUE(fake_.handles.empty());
  fake_.refused = {"create"};  // all memory is in use, say
  EXPECT_TRUE(openDevice(driver_, 0).device.has_value());
}

TEST_F(FakeGpuTest, ADeviceThatIsNotAsNeededIsAResult) {
  EXPECT_FALSE(openDevice(driver_, 7).device.has_value());
  fake_.refused = {"init"};
  EXPECT_FALSE(openDevice(driver_, 0).device.has_value());
  fake_.refused = {"primaryContextRetain"};
  EXPECT_EQ(openDevice(driver_, 1).problem,
            "CUDA device 1 gives no context: its memory may be full");
  fake_.refused = {"granularity"};
  EXPECT_FALSE(openDevice(driver_, 0).device.has_value());
  fake_.refused.clear();
  fake_.is_virtual = false;
  EXPECT_EQ(openDevice(driver_, 0).problem, "CUDA device 0 has no virtual memory management");
}

TEST_F(FakeGpuTest, MemoryIsAskedOfTheDevice) {
  const Device device = open();
  EXPECT_EQ(device.memoryInfo().total_bytes, 16 * kPage);
  fake_.refused = {"memoryInfo"};
  EXPECT_EQ(device.memoryInfo().total_bytes, 0);
}

TEST(Driver, ItsAbsenceIsAResult) {
  const DriverResult result = loadDriver();
  if (result.problem.empty()) {
    EXPECT_NE(result.driver.pages.create, nullptr);  // this machine has one
  } else {
    EXPECT_EQ(result.driver.pages.create, nullptr);
    EXPECT_NE(result.problem.find("NVIDIA driver"), std::string::npos) << result.problem;
  }
}

}  // namespace
}  // namespace ebbtide::allocator::cuda::test
