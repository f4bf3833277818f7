#include "demand.hpp"

#include <ATen/Context.h>

#include <algorithm>
#include <set>

#include "unsteady.hpp"

namespace emulated_gpu {
namespace {

double sizeAt(const DeviceTensor& tensor, std::size_t from_last) {
  const auto& sizes = tensor.sizes();
  if (sizes.size() < from_last) return 1;
  return static_cast<double>(sizes[sizes.size() - from_last]);
}

// It writes what it does not read.
bool overwrites(const std::string& name) {
  static const std::set<std::string> names = {
      "aten::copy_",          "aten::zero_",         "aten::fill_",      "aten::normal_",
      "aten::uniform_",       "aten::random_",       "aten::bernoulli_", "aten::exponential_",
      "aten::_foreach_copy_", "aten::_foreach_zero_"};
  return names.contains(name);
}

// It reads as much of the first tensor as it writes.
bool gathers(const std::string& name) {
  static const std::set<std::string> names = {"aten::embedding", "aten::index_select",
                                              "aten::gather", "aten::index"};
  return names.contains(name);
}

}  // namespace

emulated_gpu_demand demandOf(const Product& product, c10::ScalarType type, bool tf32) {
  emulated_gpu_demand result{};
  result.m = product.m;
  result.n = product.n;
  result.k = product.k;
  result.batch = product.batch;
  const bool half = type == at::kHalf || type == at::kBFloat16;
  if (half) {
    result.format = emulated_gpu_demand::EMULATED_GPU_HALF;
  } else if (type == at::kFloat && tf32) {
    result.format = emulated_gpu_demand::EMULATED_GPU_TF32;
  }
  return result;
}

emulated_gpu_demand attentionDemand(const DeviceTensor& q, const DeviceTensor& k,
                                    const DeviceTensor& v, bool causal, double passes) {
  emulated_gpu_demand result = demandOf(Product{}, q.type(), at::globalContext().allowTF32CuBLAS());
  const double heads = sizeAt(q, 4) * sizeAt(q, 3);
  const double width = (sizeAt(q, 1) + sizeAt(v, 1)) / 2;
  const double product = 2 * heads * sizeAt(q, 2) * sizeAt(k, 2) * width;
  result.attention = passes * product * (causal ? 0.5 : 1);
  return result;
}

emulated_gpu_demand demandOf(const std::string& op, const std::vector<DeviceTensor>& reads,
                             const std::vector<DeviceTensor>& writes) {
  emulated_gpu_demand result{};
  const std::string name = op.substr(0, op.find('.'));
  if (isProduct(op) && reads.size() >= 2) {
    const DeviceTensor& a = reads[reads.size() - 2];
    const DeviceTensor& b = reads.back();
    const double batch = a.sizes().size() > 2 ? sizeAt(a, 3) : 1;
    result = demandOf({sizeAt(a, 2), sizeAt(b, 1), sizeAt(a, 1), batch}, a.type(),
                      at::globalContext().allowTF32CuBLAS());
  }
  addBytes(result, reads, writes);
  const bool in_place = name.ends_with('_') && !overwrites(name);
  for (const DeviceTensor& each : writes) {
    if (in_place) result.bytes += each.bytes();
  }
  if (gathers(name) && !reads.empty()) {
    std::size_t written = 0;
    for (const DeviceTensor& each : writes) written += each.bytes();
    result.bytes -= reads.front().bytes();
    result.bytes += std::min(reads.front().bytes(), written);
  }
  return result;
}

void addBytes(emulated_gpu_demand& demand, const std::vector<DeviceTensor>& reads,
              const std::vector<DeviceTensor>& writes) {
  for (const auto* const tensors : {&reads, &writes}) {
    for (const DeviceTensor& each : *tensors) {
      demand.spanned += each.spannedBytes();
      demand.bytes += each.bytes();
    }
  }
}

}  // namespace emulated_gpu
