#include "cuda/devices_adapter.hpp"

#include <algorithm>

namespace ebbtide::plugin::cuda {

DeviceStatistics::Torch DevicesAdapter::getDeviceStats(c10::DeviceIndex device) {
  DeviceHeap* const open = heaps_.openHeap(device);
  return open == nullptr ? DeviceStatistics::Torch{} : open->statistics();
}

void DevicesAdapter::resetAccumulatedStats(c10::DeviceIndex device) {
  if (DeviceHeap* const open = heaps_.openHeap(device)) open->ledger().resetAccumulated();
}

void DevicesAdapter::resetPeakStats(c10::DeviceIndex device) {
  if (DeviceHeap* const open = heaps_.openHeap(device)) open->resetPeaks();
}

std::vector<torch_cuda::StreamSegmentSize> DevicesAdapter::getExpandableSegmentSizes(
    c10::DeviceIndex device) {
  DeviceHeap* const open = heaps_.openHeap(device);
  if (open == nullptr) return {};
  return open->ledger().segmentSizes();
}

// cuDNN asks how large a workspace may be, and chooses a convolution's algorithm by it. Algorithms
// differ in their bits. So a question without a bound gets the answer of an idle device, whatever
// the budget and the free memory. A workspace that does not fit is refused, as any block is.
void DevicesAdapter::cacheInfo(c10::DeviceIndex device, std::size_t* largest) {
  DeviceHeap& on = heaps_.heap(device);
  if (*largest == 0) {
    *largest = static_cast<std::size_t>(on.budget().totalBytes());
    return;
  }
  *largest = std::max(*largest, static_cast<std::size_t>(on.largestCachedBytes()));
}

void DevicesAdapter::emptyCache(c10::MempoolId_t) {
  // Pools in use keep their pages, whichever pool is named; those that are not have no more than
  // cache.
  heaps_.forEachOpen([](DeviceHeap& heap) { heap.releaseCached(); });
}

}  // namespace ebbtide::plugin::cuda
