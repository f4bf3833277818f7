#include "record/racing_writes.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>

#include <algorithm>
#include <string_view>

namespace ebbtide::plugin {
namespace {

using Arguments = c10::ArrayRef<const c10::IValue>;

// From so many elements on PyTorch's kernels take several threads (cpu/IndexKernel.cpp): those that
// add take them for float32 alone.
constexpr std::int64_t kAddsFrom = at::internal::GRAIN_SIZE;
constexpr std::int64_t kOverwritesFrom = 3000;
constexpr std::int64_t kCopiesRowsFrom = at::internal::GRAIN_SIZE;

bool isMask(const at::Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

// Elements that an indexing by these writes at most: their shapes are broadcast, masks count whole.
// 0: no place is written twice, for masks name each place once.
std::int64_t indexedElements(const at::Tensor& self, Arguments indices) {
  c10::DimVector common;  // the last dimension first
  std::int64_t elements = 1;
  std::int64_t dim = 0;
  for (const c10::IValue& item : indices) {
    const at::Tensor index = item.isTensor() ? item.toTensor() : at::Tensor();
    if (!index.defined()) {             // all of that dimension
      if (dim >= self.dim()) return 0;  // too many: the op raises
      elements *= self.size(dim++);
    } else if (isMask(index)) {
      elements *= index.numel();
      dim += index.dim();
    } else {
      const auto dims = static_cast<std::size_t>(std::max<std::int64_t>(index.dim(), 1));
      if (common.size() < dims) common.resize(dims, 1);
      for (std::int64_t i = 0; i < index.dim(); ++i) {
        std::int64_t& size = common[static_cast<std::size_t>(index.dim() - 1 - i)];
        size = std::max(size, index.size(i));
      }
      ++dim;
    }
  }
  if (common.empty()) return 0;
  for (const std::int64_t size : common) elements *= size;
  for (; dim < self.dim(); ++dim) elements *= self.size(dim);
  return elements;
}

// Equal numbers give the same bits in any order.
bool writes(std::int64_t elements, const at::Tensor& self, const at::Tensor& values,
            bool accumulate) {
  if (values.numel() <= 1) return false;
  if (!accumulate) return elements >= kOverwritesFrom;
  return self.scalar_type() == at::kFloat && elements >= kAddsFrom;
}

std::string_view plainName(std::string_view op) {
  op.remove_prefix(std::string_view("aten::").size());
  if (op.ends_with('_')) op.remove_suffix(1);
  return op;
}

}  // namespace

bool racesOnHost(const OpInfo& info, Arguments arguments) {
  if (!info.may_race_on_host || at::get_num_threads() <= 1) return false;
  const std::string_view op = plainName(info.name);
  if (op.starts_with("max_unpool") || arguments.size() < 4) return true;
  const at::Tensor& self = arguments[0].toTensor();
  const bool in_order = at::globalContext().deterministicAlgorithms();
  if (op == "index_copy") return !in_order && arguments[3].toTensor().numel() >= kCopiesRowsFrom;
  if (op == "put") {
    const bool accumulate = arguments[3].toBool();
    return !(in_order && accumulate) &&
           writes(arguments[1].toTensor().numel(), self, arguments[2].toTensor(), accumulate);
  }
  if (in_order) return false;
  const bool masked = op == "_unsafe_masked_index_put_accumulate";  // (self, mask, indices, values)
  const auto indices = arguments[masked ? 2 : 1].toListRef();
  return writes(indexedElements(self, indices), self, arguments[masked ? 3 : 2].toTensor(),
                masked || arguments[3].toBool());
}

}  // namespace ebbtide::plugin
