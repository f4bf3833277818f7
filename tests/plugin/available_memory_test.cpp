#include "available_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

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
  EXPECT_EQ(availableMemoryBytes(root_), 8 * kMib);
  EXPECT_GT(availableMemoryBytes(), kMib);  // this machine's
}

// 5 MiB, of which 4 are used, 2 of them cached files: 5 - 2 = 3. Above it 20 are left.
TEST_F(AvailableMemory, AGroupHasALimit) {
  write("proc/self/cgroup", "0::/all/job\n");
  write("sys/fs/cgroup/all/memory.max", "20971520\n");
  write("sys/fs/cgroup/all/memory.current", "0\n");
  EXPECT_EQ(availableMemoryBytes(root_), 8 * kMib);
  write("sys/fs/cgroup/all/job/memory.max", "5242880\n");
  write("sys/fs/cgroup/all/job/memory.current", "4194304\n");
  EXPECT_EQ(availableMemoryBytes(root_), 1 * kMib);
  write("sys/fs/cgroup/all/job/memory.stat", "inactive_file 1048576\nactive_file 1048576\n");
  EXPECT_EQ(availableMemoryBytes(root_), 3 * kMib);
  write("sys/fs/cgroup/all/job/memory.max", "max\n");
  EXPECT_EQ(availableMemoryBytes(root_), 8 * kMib);
  write("sys/fs/cgroup/all/memory.current", "999999999\n");  // more than its limit
  EXPECT_EQ(availableMemoryBytes(root_), 0);
}

// In a container the group's name is the machine's, and its files are those at the top.
TEST_F(AvailableMemory, SoDoThoseOfTheFirstVersion) {
  write("proc/self/cgroup", "4:cpu,cpuacct:/x\n3:memory:/docker/0123\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "3145728\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n");
  EXPECT_EQ(availableMemoryBytes(root_), 2 * kMib);
}

}  // namespace
}  // namespace ebbtide::plugin
