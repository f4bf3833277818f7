#include "nccl/nccl_side.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "nccl/profiler_interface.hpp"

namespace ebbtide::plugin {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = fs::path(EBBTIDE_NCCL_PROFILER).parent_path().string();

// In order: what is offered stays so for the process.
TEST(NcclSide, IsOfferedWhereNothingIsInItsPlace) {
  unsetenv("NCCL_PROFILER_PLUGIN");
  std::uint64_t cursor = 0;
  EXPECT_FALSE(offerToNccl("/nowhere"));
  EXPECT_EQ(std::getenv("NCCL_PROFILER_PLUGIN"), nullptr) << "NCCL would look for it in vain";
  setenv("NCCL_PROFILER_PLUGIN", "inspector", 1);
  EXPECT_FALSE(offerToNccl(kFolder));
  EXPECT_STREQ(std::getenv("NCCL_PROFILER_PLUGIN"), "inspector");
  EXPECT_FALSE(ncclTotals().has_value());
  EXPECT_TRUE(ncclWaitsSince(cursor).empty());
  watchNccl(false);  // of none

  unsetenv("NCCL_PROFILER_PLUGIN");
  ASSERT_TRUE(offerToNccl(kFolder));
  EXPECT_STREQ(std::getenv("NCCL_PROFILER_PLUGIN"), "ebbtide");
  EXPECT_TRUE(offerToNccl(kFolder)) << "once is enough";
}

// NCCL's side and ours are one library: what comes in at one is read at the other. 700 are more
// than one reading of the ring.
TEST(NcclSide, ReadsWhatNcclTells) {
  unsetenv("NCCL_PROFILER_PLUGIN");
  ASSERT_TRUE(offerToNccl(kFolder));
  void* const library = dlopen("libnccl-profiler-ebbtide.so", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto* const profiler = static_cast<nccl::ProfilerV5*>(dlsym(library, "ncclProfiler_v5"));
  void* context = nullptr;
  int mask = 0;
  watchNccl(true);
  profiler->init(&context, 9, &mask, nullptr, 1, 2, 0, nullptr);
  EXPECT_NE(mask, 0);
  for (int i = 0; i < 700; ++i) {
    nccl::Descriptor<std::uint64_t> event{};
    event.type = nccl::kPointToPoint;
    event.point_to_point = {.function = "Recv",
                            .buffer = nullptr,
                            .data_type = "ncclFloat32",
                            .count = 10,
                            .peer = 1,
                            .channels = 1,
                            .parent_group = nullptr};
    void *handle = nullptr, *channel = nullptr;
    profiler->startEvent(context, &handle, &event);
    profiler->stopEvent(handle);
    nccl::Descriptor<std::uint64_t> inner{};
    inner.type = nccl::kKernelChannel;
    inner.parent = handle;
    inner.kernel_channel = {.channel = 0, .device_ns = 0};
    profiler->startEvent(context, &channel, &inner);
    profiler->stopEvent(channel);
  }
  dlclose(library);  // as NCCL does after its last communicator
  std::uint64_t cursor = 0;
  EXPECT_EQ(ncclWaitsSince(cursor).size(), 700U);
  EXPECT_TRUE(ncclWaitsSince(cursor).empty());
  ASSERT_TRUE(ncclTotals().has_value());
  EXPECT_EQ((*ncclTotals())[CommunicationKind::kReceive].bytes, 700 * 40);
  watchNccl(false);
  EXPECT_EQ(mask, 0);
  watchNccl(true);
}

}  // namespace
}  // namespace ebbtide::plugin
