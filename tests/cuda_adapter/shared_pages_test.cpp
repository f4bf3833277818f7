// Pages that another process is to see. Here both are this process, over a driver that is a fake:
// the descriptors are real, and taken from the process as another one would.
#include "cuda/shared_pages.hpp"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#include "../cuda/fake_driver.hpp"

namespace ebbtide::plugin::cuda::test {
namespace {

using namespace allocator::cuda::test;
using allocator::Bytes;
using allocator::cuda::CudaAddressSpace;

class SharedPagesTest : public allocator::cuda::test::FakeGpuTest {
 protected:
  SharedPagesTest() {
    driver_.pages.exportHandle = [](void* file, CUmemGenericAllocationHandle,
                                    CUmemAllocationHandleType, unsigned long long) {
      *static_cast<int*>(file) = ::memfd_create("page", 0);
      return CUDA_SUCCESS;
    };
    driver_.pages.importHandle = [](CUmemGenericAllocationHandle* handle, void* file,
                                    CUmemAllocationHandleType) {
      const auto number = static_cast<int>(reinterpret_cast<std::uintptr_t>(file));
      EXPECT_GE(::lseek(number, 0, SEEK_CUR), 0) << "no open descriptor";
      *handle = gpu->next_handle++;
      gpu->handles[*handle] = 1;
      return CUDA_SUCCESS;
    };
    space_ = std::make_unique<CudaAddressSpace>(open());
    begin_ = space_->reserve(8 * kPage);
    EXPECT_TRUE(space_->map(begin_, 4 * kPage));
    open_before_ = openFiles();
  }
  ~SharedPagesTest() override {
    if (space_ != nullptr) space_->release(begin_, 8 * kPage);
    EXPECT_TRUE(fake_.handles.empty()) << "pages were lost";
    EXPECT_EQ(openFiles(), open_before_) << "descriptors were lost";
  }

  static std::ptrdiff_t openFiles() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  }
  // Containers may forbid what processes of one user do elsewhere.
  static bool allowed() {
    const int self = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
    const int copy = static_cast<int>(::syscall(SYS_pidfd_getfd, self, 0, 0));
    if (self >= 0) ::close(self);
    if (copy >= 0) ::close(copy);
    return copy >= 0;
  }
  char* at(Bytes offset) { return static_cast<char*>(begin_) + offset; }

  std::unique_ptr<CudaAddressSpace> space_;
  void* begin_ = nullptr;
  std::ptrdiff_t open_before_ = 0;
};

// From the middle of the second page to the middle of the third: two pages.
TEST_F(SharedPagesTest, ABlockArrivesWithItsPages) {
  if (!allowed()) GTEST_SKIP() << "this system has no pidfd_getfd";
  SharedPages shared;
  void* const block = at(kPage + kPage / 2);
  const auto handle = shared.share(*space_, block, kPage);
  EXPECT_EQ(handle.offset_bytes, kPage / 2);
  EXPECT_EQ(openFiles(), open_before_ + 2);
  EXPECT_EQ(shared.share(*space_, block, kPage).text, handle.text) << "once is enough";
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int number = std::stoi(file.path().filename().string());
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file.path(), gone).string();
    if (target.find("memfd:page") != std::string::npos) {
      EXPECT_EQ(::fcntl(number, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC) << "children would inherit it";
    }
  }
  {
    const std::shared_ptr<void> there =
        SharedPages::open(*space_, handle.text, [] { return true; });
    ASSERT_NE(there, nullptr);
    EXPECT_EQ(fake_.usedBytes(), 6 * kPage);
    EXPECT_EQ(openFiles(), open_before_ + 2) << "the copies are closed";
  }
  EXPECT_EQ(fake_.usedBytes(), 4 * kPage);
  shared.onFreed(at(0));  // another block
  EXPECT_EQ(openFiles(), open_before_ + 2);
  shared.onFreed(block);
  EXPECT_EQ(openFiles(), open_before_);
}

// Torch lets go of the pages before it waits for the stream that uses them.
TEST_F(SharedPagesTest, PagesOfAnotherProcessGoWhenTheDeviceIsIdle) {
  if (!allowed()) GTEST_SKIP() << "this system has no pidfd_getfd";
  SharedPages shared;
  const auto handle = shared.share(*space_, begin_, kPage);
  int asked = 0;
  auto there = SharedPages::open(*space_, handle.text, [&] {
    ++asked;
    EXPECT_EQ(fake_.usedBytes(), 5 * kPage) << "unmapped under a kernel";
    return true;
  });
  there.reset();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(fake_.usedBytes(), 4 * kPage);
  there = SharedPages::open(*space_, handle.text, [] { return false; });
  void* const at = there.get();
  there.reset();
  EXPECT_EQ(fake_.usedBytes(), 5 * kPage) << "a kernel may use it still";
  space_->release(at, kPage);
  shared.onFreed(begin_);
}

TEST_F(SharedPagesTest, WhatIsNoHandleOfOursIsRefused) {
  SharedPages shared;
  const auto handle = shared.share(*space_, begin_, 2 * kPage);
  for (const std::string& text : {std::string(), std::string("?"), std::string(64, 'x'),
                                  handle.text.substr(0, 30), handle.text + "more"}) {
    EXPECT_THROW(SharedPages::open(*space_, text, [] { return true; }), c10::Error);
  }
  EXPECT_EQ(fake_.usedBytes(), 4 * kPage);
  shared.onFreed(begin_);
}

TEST_F(SharedPagesTest, ADeviceThatCannotShareSaysSo) {
  driver_.pages.exportHandle = [](void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
                                  unsigned long long) { return CUDA_ERROR_NOT_SUPPORTED; };
  SharedPages shared;
  EXPECT_THROW(shared.share(*space_, begin_, kPage), c10::Error);
}

}  // namespace
}  // namespace ebbtide::plugin::cuda::test
