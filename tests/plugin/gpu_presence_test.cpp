#include "device/gpu_presence.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ebbtide::plugin {
namespace {

// A library that every Linux has stands for the driver's.
constexpr const char* kDriver = "libc.so.6";

class GpuPresenceTest : public ::testing::Test {
 protected:
  GpuPresenceTest() {
    std::filesystem::create_directories(folder_);
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  ~GpuPresenceTest() override {
    std::filesystem::remove_all(folder_);
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  void device(const char* name) { std::ofstream(folder_ + "/" + name); }

  const std::string folder_ =
      ::testing::TempDir() + "ebbtide-devices-" + std::to_string(::getpid());
};

TEST_F(GpuPresenceTest, TheDriversOwnDevicesAreNoGpu) {
  for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia", "null"}) device(name);
  EXPECT_FALSE(gpuVisible(folder_, kDriver));
  device("nvidia0");
  EXPECT_TRUE(gpuVisible(folder_, kDriver));
}

TEST_F(GpuPresenceTest, WithoutADriverThereIsNone) {
  device("nvidia3");
  EXPECT_FALSE(gpuVisible(folder_, "libno-such-driver.so.1"));
  EXPECT_FALSE(gpuVisible(folder_ + "/none", kDriver));
}

TEST_F(GpuPresenceTest, HiddenOnesAreNotThere) {
  device("nvidia0");
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_FALSE(gpuVisible(folder_, kDriver));
  ::setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
  EXPECT_FALSE(gpuVisible(folder_, kDriver));
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
  EXPECT_TRUE(gpuVisible(folder_, kDriver));
}

}  // namespace
}  // namespace ebbtide::plugin
