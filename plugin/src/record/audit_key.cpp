#include "record/audit_key.hpp"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/stable_hash.hpp"
#include "device/torch/training_device.hpp"
#include "record/global_state.hpp"
#include "record/recipe.hpp"

namespace ebbtide::plugin {
namespace {

// What an argument is. Part of the file's format: a new one goes to the end.
enum Kind : std::uint64_t {
  kAbsent,
  kDense,
  kNoMemory,
  kNumberTensor,
  kInteger,
  kReal,
  kComplex,
  kTruth,
  kText,
  kDevice,
  kGenerator,
  kList,
};

std::uint64_t bitsOf(double number) {
  return std::bit_cast<std::uint64_t>(number);
}

// PyTorch sets the CPU's mode, but does not tell it.
bool flushesDenormals() {
  const volatile float least = std::numeric_limits<float>::min();
  return least / 2 == 0;
}

class Key {
 public:
  explicit Key(std::uint64_t op) { hash_.add(op); }

  void addState() {
    const GlobalState state = GlobalState::now();
    for (const bool on : state.switches) hash_.add(on ? 1 : 0);
    for (const auto precision : state.precision) hash_.add(static_cast<std::uint64_t>(precision));
    hash_.add(static_cast<std::uint64_t>(c10::typeMetaToScalarType(state.default_dtype)));
    hash_.add(static_cast<std::uint64_t>(state.threads));
    hash_.add(at::GradMode::is_enabled() ? 1 : 0);
    const bool autocast = at::autocast::is_autocast_enabled(at::kCPU);
    hash_.add(autocast ? 1 : 0);
    if (autocast) hash_.add(static_cast<std::uint64_t>(at::autocast::get_autocast_dtype(at::kCPU)));
    hash_.add(flushesDenormals() ? 1 : 0);
  }

  // False: of an unknown kind.
  bool add(const c10::IValue& value) {
    if (value.isTensor()) return addTensor(value.toTensor());
    if (value.isNone()) return hash_.add(kAbsent), true;
    if (value.isBool()) return hash_.add(kTruth).add(value.toBool() ? 1 : 0), true;
    if (value.isInt())
      return hash_.add(kInteger).add(static_cast<std::uint64_t>(value.toInt())), true;
    if (value.isDouble()) return hash_.add(kReal).add(bitsOf(value.toDouble())), true;
    if (value.isComplexDouble()) {
      const c10::complex<double> number = value.toComplexDouble();
      hash_.add(kComplex).add(bitsOf(number.real())).add(bitsOf(number.imag()));
      return true;
    }
    if (value.isString()) return hash_.add(kText).add(value.toStringView()), true;
    if (value.isDevice()) return hash_.add(kDevice).add(value.toDevice().str()), true;
    if (value.isGenerator())
      return hash_.add(kGenerator).add(value.toGenerator().defined() ? 1 : 0), true;
    if (!value.isList()) return false;
    const auto items = value.toListRef();
    hash_.add(kList).add(items.size());
    return std::all_of(items.begin(), items.end(), [this](const auto& item) { return add(item); });
  }

  AuditKey value() const { return std::max<AuditKey>(1, hash_.value()); }

 private:
  bool addTensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return hash_.add(kAbsent), true;
    const bool plain = isPlain(tensor);
    if (plain || isEmpty(tensor)) {
      hash_.add(plain ? kDense : kNoMemory);
      addLooks(tensor);
      if (plain) hash_.add(placeOf(tensor.storage().unsafeGetStorageImpl()));
      return true;
    }
    const bool number = tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
                        tensor.device().is_cpu() && tensor.numel() == 1;
    if (!number) return false;
    hash_.add(kNumberTensor).add(static_cast<std::uint64_t>(tensor.scalar_type()));
    hash_.add(std::string_view(static_cast<const char*>(tensor.const_data_ptr()),
                               static_cast<std::size_t>(tensor.itemsize())));
    return true;
  }

  void addLooks(const at::Tensor& tensor) {
    hash_.add(static_cast<std::uint64_t>(tensor.scalar_type()));
    hash_.add(static_cast<std::uint64_t>(tensor.dim()));
    for (const std::int64_t size : tensor.sizes()) hash_.add(static_cast<std::uint64_t>(size));
    for (const std::int64_t stride : tensor.strides())
      hash_.add(static_cast<std::uint64_t>(stride));
    hash_.add(static_cast<std::uint64_t>(tensor.storage_offset()));
    hash_.add(tensor.requires_grad() ? 1 : 0);
  }

  // Among the storages that the op was given so far: which arguments share one.
  std::uint64_t placeOf(const c10::StorageImpl* storage) {
    const auto found = std::find(storages_.begin(), storages_.end(), storage);
    const auto place = static_cast<std::uint64_t>(found - storages_.begin());
    if (found == storages_.end()) storages_.push_back(storage);
    return place;
  }

  StableHash hash_;
  std::vector<const c10::StorageImpl*> storages_;
};

}  // namespace

AuditKey auditKey(const OpInfo& info, c10::ArrayRef<const c10::IValue> arguments) {
  // No key tells one GPU, driver or library from another.
  if (!trainingDevice().device.is_cpu()) return 0;
  // PyTorch's version goes with the file (audit_cache.hpp); that of other libraries nobody tells.
  if (!info.name.starts_with("aten::")) return 0;
  Key key(info.hash);
  key.addState();
  for (const c10::IValue& value : arguments) {
    if (!key.add(value)) return 0;
  }
  return key.value();
}

}  // namespace ebbtide::plugin
