#include "request_guard.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "ebbtide/metrics/machine_name.hpp"
#include "private_folder.hpp"

namespace ebbtide::metrics {
namespace {

TEST(RequestGuard, AcceptsTheMachinesNamesAndNoOtherOfTheSameFirstLabel) {
  const RequestGuard guard("127.0.0.1", "vm.cluster.example", {});
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
  const RequestGuard guard("127.0.0.1", "vm", {});
  EXPECT_TRUE(guard.acceptsHost("vm"));
  EXPECT_FALSE(guard.acceptsHost("vm.evil.example"));
}

TEST(RequestGuard, AMachineWithoutANameAcceptsNone) {
  const RequestGuard guard("127.0.0.1", "", {"corp.example"});
  EXPECT_FALSE(guard.acceptsHost(""));
  EXPECT_FALSE(guard.acceptsHost(".evil.example"));
  EXPECT_FALSE(guard.acceptsHost(".corp.example"));
  EXPECT_TRUE(guard.acceptsHost("localhost"));
}

// Machines are often named by one label, and scraped by their whole name.
TEST(RequestGuard, AcceptsTheMachineInTheDomainsThatItSearches) {
  const RequestGuard guard("0.0.0.0", "vm", {"corp.example", "example.net"});
  EXPECT_TRUE(guard.acceptsHost("vm.corp.example:9464"));
  EXPECT_TRUE(guard.acceptsHost("VM.example.net"));
  for (const char* host : {"corp.example", "other.corp.example", "vm.corp.example.evil.example"})
    EXPECT_FALSE(guard.acceptsHost(host)) << host;
}

TEST(SearchDomains, AreThoseOfTheLastLine) {
  test::PrivateFolder folder;
  const std::string file = folder / "resolv.conf";
  EXPECT_TRUE(searchDomains(file).empty());
  std::ofstream(file) << "# search no.example\ndomain a.example\nnameserver 192.0.2.1\n"
                         "search b.example. c.example .\n";
  EXPECT_EQ(searchDomains(file), (std::vector<std::string>{"b.example", "c.example"}));
}

}  // namespace
}  // namespace ebbtide::metrics
