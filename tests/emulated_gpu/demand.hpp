// What a kernel asks of the device, for mode *clock*: bytes and operations of its tensors.
#pragma once

#include <string>
#include <vector>

#include "device_tensor.hpp"

namespace emulated_gpu {

// A matrix product, or what a library computes as one. TF32 where PyTorch may use it there.
struct Product {
  double m = 0, n = 0, k = 0, batch = 1;
};
emulated_gpu_demand demandOf(const Product& product, c10::ScalarType type, bool tf32);
// Operations of softmax(q k^T) v: `passes` products of q's and k's sizes.
emulated_gpu_demand attentionDemand(const DeviceTensor& q, const DeviceTensor& k,
                                    const DeviceTensor& v, bool causal, double passes);
// Of an op by its name; its products and what it reads where it writes.
emulated_gpu_demand demandOf(const std::string& op, const std::vector<DeviceTensor>& reads,
                             const std::vector<DeviceTensor>& writes);

// Sets the bytes.
void addBytes(emulated_gpu_demand& demand, const std::vector<DeviceTensor>& reads,
              const std::vector<DeviceTensor>& writes);

}  // namespace emulated_gpu
