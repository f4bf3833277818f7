// The host's pages on their own.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "ebbtide/allocator/host_address_space.hpp"
#include "fakes.hpp"

namespace ebbtide::allocator::test {
namespace {

// The permissions and the VmFlags line of the mapping that holds this address.
std::string smapsOf(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::string result;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    char access[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) == 3) {
      inside = begin <= wanted && wanted < end;
      if (inside) result = access;
    } else if (inside && line.starts_with("VmFlags:")) {
      return result + " " + line + " ";
    }
  }
  return "";
}

class HostSpaceTest : public testing::Test {
 protected:
  ~HostSpaceTest() override { space_->release(begin_, kBytes); }

  static constexpr Bytes kBytes = 64 * kMiB;
  const std::unique_ptr<AddressSpace> space_ = makeHostAddressSpace();
  char* const begin_ = static_cast<char*>(space_->reserve(kBytes));
};

TEST_F(HostSpaceTest, ReservedAddressesAreAlignedAndNotAccessible) {
  ASSERT_NE(begin_, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin_) % kHugePage, 0U);
  EXPECT_TRUE(smapsOf(begin_).starts_with("---p"));
  EXPECT_TRUE(smapsOf(begin_ + kBytes - 1).starts_with("---p"));
  if (std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good()) {
    EXPECT_NE(smapsOf(begin_).find(" hg "), std::string::npos);
  }
}

TEST_F(HostSpaceTest, MappedPagesAreZeroedAndWritableAndNoOthers) {
  const Bytes page = space_->pageBytes();
  ASSERT_TRUE(space_->map(begin_ + page, 3 * page));
  EXPECT_EQ(begin_[page], 0);
  EXPECT_EQ(begin_[4 * page - 1], 0);
  std::memset(begin_ + page, 1, size(3 * page));
  EXPECT_TRUE(smapsOf(begin_).starts_with("---p"));
  EXPECT_TRUE(smapsOf(begin_ + 4 * page).starts_with("---p"));
}

// Mapped in one piece, unmapped in another, mapped in a third.
TEST_F(HostSpaceTest, PiecesNeedNotMatch) {
  ASSERT_TRUE(space_->map(begin_, 8 * kMiB));
  std::memset(begin_, 7, size(8 * kMiB));
  space_->unmap(begin_ + kMiB, 3 * kMiB);
  EXPECT_TRUE(smapsOf(begin_ + 2 * kMiB).starts_with("---p"));
  EXPECT_EQ(begin_[kMiB - 1], 7);
  EXPECT_EQ(begin_[4 * kMiB], 7);
  ASSERT_TRUE(space_->map(begin_ + 2 * kMiB, kMiB));
  EXPECT_EQ(begin_[2 * kMiB], 0);  // the old pages are gone
  space_->unmap(begin_, kMiB);
  space_->unmap(begin_ + 2 * kMiB, 6 * kMiB);
}

// The kernel refuses MADV_DONTNEED for a range with locked pages in it.
TEST_F(HostSpaceTest, PagesThatSomebodyLockedGoAllTheSame) {
  const Bytes page = space_->pageBytes();
  for (const Bytes locked : {8 * page, page}) {  // all of them, one in the middle
    ASSERT_TRUE(space_->map(begin_, 8 * page));
    std::memset(begin_, 7, size(8 * page));
    char* const first = begin_ + (8 * page - locked) / 2 / page * page;
    if (::mlock(first, size(locked)) != 0) GTEST_SKIP() << "no right to lock memory";
    space_->unmap(begin_, 8 * page);
    EXPECT_TRUE(smapsOf(first).starts_with("---p"));
    ASSERT_TRUE(space_->map(begin_, 8 * page));
    for (Bytes at = 0; at < 8 * page; at += page) EXPECT_EQ(begin_[at], 0) << at;
    space_->unmap(begin_, 8 * page);
  }
}

TEST_F(HostSpaceTest, NeighboursOfOneKindAreOneMapping) {
  ASSERT_TRUE(space_->map(begin_, kMiB));
  ASSERT_TRUE(space_->map(begin_ + kMiB, kMiB));
  // One line for both: the kernel's mapping slots are not used up by mapping bit by bit.
  std::ifstream maps("/proc/self/maps");
  const auto wanted = reinterpret_cast<unsigned long>(begin_);
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    std::sscanf(line.c_str(), "%lx-%lx", &begin, &end);
    if (begin <= wanted && wanted < end) {
      EXPECT_EQ(end - wanted, size(2 * kMiB));
    }
  }
}

TEST_F(HostSpaceTest, ImpossibleReservationsAreRefused) {
  EXPECT_EQ(space_->reserve(Bytes{1} << 60), nullptr);
  EXPECT_EQ(space_->reserve(kUnlimited), nullptr);
}

TEST_F(HostSpaceTest, TheReservationIsAMultipleOfTheMemory) {
  EXPECT_GE(hostReserveBytes(), Bytes{1} << 30);
}

}  // namespace
}  // namespace ebbtide::allocator::test
