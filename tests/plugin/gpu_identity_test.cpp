#include "device/gpu_identity.hpp"

#include <gtest/gtest.h>

namespace ebbtide::plugin {
namespace {

// As nvidia-smi -L writes it: groups of 4, 2, 2, 2 and 6 bytes.
TEST(GpuIdentityTest, AnIdentifierReadsAsTheDriverWritesIt) {
  char bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<char>(0x11 * i);
  EXPECT_EQ(uuidText(bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
}

}  // namespace
}  // namespace ebbtide::plugin
