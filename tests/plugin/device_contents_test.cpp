#include "device/host_contents.hpp"
#include "device_contents_contract.hpp"

namespace ebbtide::plugin {
namespace {

INSTANTIATE_TEST_SUITE_P(Host, DeviceContentsTest, ::testing::Values([] {
                           return std::shared_ptr<const DeviceContents>(
                               std::make_shared<HostContents>());
                         }));

}  // namespace
}  // namespace ebbtide::plugin
