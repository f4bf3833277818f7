#include "request_guard.hpp"

#include <gtest/gtest.h>

namespace ebbtide::metrics {
namespace {

TEST(RequestGuard, AcceptsTheMachinesNamesAndNoOtherOfTheSameFirstLabel) {
  const RequestGuard guard("127.0.0.1", "vm.cluster.example");
  for (const char* host : {"vm", "VM:9464", "vm.cluster.example", "vm.Cluster.example:80"}) {
    EXPECT_TRUE(guard.acceptsHost(host)) << host;
  }
  // A rebound name is one of its owner's domain, with any label before it.
  for (const char* host : {"vm.evil.example", "vm.cluster.example.evil.example", "vm.cluster",
                           "vm.", "cluster.example", "avm", ".", ""}) {
    EXPECT_FALSE(guard.acceptsHost(host)) << host;
  }
}

TEST(RequestGuard, AMachineOfOneLabelHasNoDomain) {
  const RequestGuard guard("127.0.0.1", "vm");
  EXPECT_TRUE(guard.acceptsHost("vm"));
  EXPECT_FALSE(guard.acceptsHost("vm.evil.example"));
}

TEST(RequestGuard, AMachineWithoutANameAcceptsNone) {
  const RequestGuard guard("127.0.0.1", "");
  EXPECT_FALSE(guard.acceptsHost(""));
  EXPECT_FALSE(guard.acceptsHost(".evil.example"));
  EXPECT_TRUE(guard.acceptsHost("localhost"));
}

}  // namespace
}  // namespace ebbtide::metrics
