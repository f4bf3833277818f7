#include "config/available_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>

#include "config/config.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kMib = 1 << 20;

class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory()
      : root_(std::filesystem::path(testing::TempDir()) /
              ("ebbtide-memory-" + std::to_string(::getpid()))) {
    write("proc/meminfo", "MemTotal:       16384 kB\nMemAvailable:    8192 kB\n");  // 8 MiB
  }
  ~AvailableMemory() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }

  const std::filesystem::path root_;
};

TEST_F(AvailableMemory, WithoutGroupsTheMachineTells) {
  EXPECT_EQ(availableMemoryBytes(0, root_), 8 * kMib);
  EXPECT_GT(availableMemoryBytes(), kMib);  // this machine's
}

// 30 pages are resident; 10 are those of files.
TEST_F(AvailableMemory, AProcessHasPagesThatAreNoFiles) {
  EXPECT_EQ(residentAnonymousBytes(root_), std::nullopt);
  write("proc/self/statm", "100 30 10 5 0 60 0\n");
  EXPECT_EQ(residentAnonymousBytes(root_), 20 * ::sysconf(_SC_PAGE_SIZE));
}

// Of 64 pages 4 are written: two side by side, one in which an extent ends and the next one begins,
// and one behind the extents.
TEST_F(AvailableMemory, OnlyPagesThatWereWrittenAreInMemory) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE));
  void* const mapped =
      ::mmap(nullptr, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ::madvise(mapped, 64 * page, MADV_NOHUGEPAGE);
  auto* const begin = static_cast<std::byte*>(mapped);
  const auto bytes = static_cast<std::int64_t>(page);
  const allocator::MappedExtents extents = {{begin, 32 * bytes},
                                            {begin + 32 * bytes, bytes / 2},
                                            {begin + 32 * bytes + bytes / 2, 30 * bytes}};
  EXPECT_EQ(residentBytes({}), 0);
  EXPECT_EQ(residentBytes(extents), 0);
  for (const int written : {5, 6, 32, 63}) begin[written * bytes] = std::byte{1};
  EXPECT_EQ(residentBytes(extents), 3 * bytes);
  ::munmap(mapped, 64 * page);
}

// The group may have 5 MiB. It uses 4, with 2 of cached files in the 4: 5 - (4 - 2) = 3. The group
// above has 20 left.
TEST_F(AvailableMemory, AGroupHasALimit) {
  write("proc/self/cgroup", "0::/all/job\n");
  write("sys/fs/cgroup/all/memory.max", "20971520\n");
  write("sys/fs/cgroup/all/memory.current", "0\n");
  EXPECT_EQ(availableMemoryBytes(0, root_), 8 * kMib);
  write("sys/fs/cgroup/all/job/memory.max", "5242880\n");
  write("sys/fs/cgroup/all/job/memory.current", "4194304\n");
  EXPECT_EQ(availableMemoryBytes(0, root_), 1 * kMib);
  write("sys/fs/cgroup/all/job/memory.stat", "inactive_file 1048576\nactive_file 1048576\n");
  EXPECT_EQ(availableMemoryBytes(0, root_), 3 * kMib);
  write("sys/fs/cgroup/all/job/memory.max", "max\n");
  EXPECT_EQ(availableMemoryBytes(0, root_), 8 * kMib);
  write("sys/fs/cgroup/all/memory.current", "999999999\n");  // more than its limit
  EXPECT_EQ(availableMemoryBytes(0, root_), 0);
}

// The group above may have 6 MiB, and is slowed down from 4 on: 4 - 1 are left. Its own group is
// slowed down from 2 on, though it may have 5, and uses 0.5: 1.5, with the share 2 - 0.05 * 2 -
// 0.5.
TEST_F(AvailableMemory, AGroupIsNotToBeSlowedDown) {
  write("proc/self/cgroup", "0::/all/job\n");
  write("sys/fs/cgroup/all/memory.max", "6291456\n");
  write("sys/fs/cgroup/all/memory.high", "max\n");
  write("sys/fs/cgroup/all/memory.current", "1048576\n");
  EXPECT_EQ(availableMemoryBytes(0, root_), 5 * kMib);
  write("sys/fs/cgroup/all/memory.high", "4194304\n");
  EXPECT_EQ(availableMemoryBytes(0, root_), 3 * kMib);
  write("sys/fs/cgroup/all/job/memory.max", "5242880\n");
  write("sys/fs/cgroup/all/job/memory.high", "2097152\n");
  write("sys/fs/cgroup/all/job/memory.current", "524288\n");
  EXPECT_EQ(availableMemoryBytes(0, root_), 3 * kMib / 2);
  EXPECT_EQ(availableMemoryBytes(0.05, root_), 2 * kMib - 2 * kMib / 20 - kMib / 2);
}

// A group of 5 MiB on a machine of 16: 4 MiB and 5 - 0.05 * 5 - 1 = 3.75 are left without the
// share, not 5 - 0.05 * 16 - 1. With 1 MiB left on the machine: 1 - 0.05 * 16 = 0.2.
TEST_F(AvailableMemory, TheShareThatStaysFreeIsOfEachLimit) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "5242880\n");
  write("sys/fs/cgroup/job/memory.current", "1048576\n");
  EXPECT_EQ(availableMemoryBytes(0, root_), 4 * kMib);
  EXPECT_EQ(availableMemoryBytes(0.05, root_), 5 * kMib * 19 / 20 - kMib);
  write("proc/meminfo", "MemTotal:       16384 kB\nMemAvailable:    1024 kB\n");
  EXPECT_EQ(availableMemoryBytes(0.05, root_), kMib - 16 * kMib / 20);
  write("sys/fs/cgroup/job/memory.current", "5242880\n");
  EXPECT_EQ(availableMemoryBytes(0.05, root_), 0);
}

// In a container the group's name is the machine's, and its files are those at the top.
TEST_F(AvailableMemory, SoDoThoseOfTheFirstVersion) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/docker/0123\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3145728\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
  EXPECT_EQ(availableMemoryBytes(0, root_), 2 * kMib);
}

TEST_F(AvailableMemory, WithoutAGroupThereIsNoLimit) {
  EXPECT_EQ(groupLimitBytes(root_), std::nullopt);
  write("proc/self/cgroup", "0::/all/job\n");
  EXPECT_EQ(groupLimitBytes(root_), std::nullopt);
  write("sys/fs/cgroup/all/job/memory.max", "max\n");
  EXPECT_EQ(groupLimitBytes(root_), std::nullopt);
}

// 5 MiB of its own, 3 above it; what is used, or whether that is known, does not matter.
TEST_F(AvailableMemory, TheLowestLimitOfAllGroupsAboveHolds) {
  write("proc/self/cgroup", "0::/all/job\n");
  write("sys/fs/cgroup/all/job/memory.max", "5242880\n");
  EXPECT_EQ(groupLimitBytes(root_), 5 * kMib);
  write("sys/fs/cgroup/all/memory.max", "3145728\n");
  EXPECT_EQ(groupLimitBytes(root_), 3 * kMib);
  write("sys/fs/cgroup/memory.max", "1048576\n");  // the top, as a container sees its own
  EXPECT_EQ(groupLimitBytes(root_), 1 * kMib);
}

// 5 MiB of its own, slowed down from 4 on; above it there is no limit, but 3 MiB slow it down. Of
// two numbers the smaller one counts.
TEST_F(AvailableMemory, WhatSlowsAGroupDownIsALimit) {
  write("proc/self/cgroup", "0::/all/job\n");
  write("sys/fs/cgroup/all/job/memory.max", "5242880\n");
  write("sys/fs/cgroup/all/job/memory.high", "4194304\n");
  EXPECT_EQ(groupLimitBytes(root_), 4 * kMib);
  write("sys/fs/cgroup/all/memory.max", "max\n");
  write("sys/fs/cgroup/all/memory.high", "3145728\n");
  EXPECT_EQ(groupLimitBytes(root_), 3 * kMib);
  EXPECT_EQ(usableMemoryBytes(root_), std::min(machineMemoryBytes(), 3 * kMib));
  write("sys/fs/cgroup/all/memory.max", "2097152\n");
  EXPECT_EQ(groupLimitBytes(root_), 2 * kMib);
}

// The name that /proc has is the machine's; the container's files are at the top. The first version
// writes a number near 2^63 where there is no limit, which the machine's memory is below.
TEST_F(AvailableMemory, AContainerOfTheFirstVersionHasALimit) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:hugetlb,memory:/docker/0123\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(groupLimitBytes(root_), 9223372036854771712);
  EXPECT_EQ(usableMemoryBytes(root_), machineMemoryBytes());
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1610612736\n");
  EXPECT_EQ(groupLimitBytes(root_), 1536 * kMib);
  EXPECT_EQ(usableMemoryBytes(root_), std::min(machineMemoryBytes(), 1536 * kMib));
}

}  // namespace
}  // namespace ebbtide::plugin
