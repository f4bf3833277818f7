#include "hooks/stand_in.hpp"

#include <memory>
#include <utility>

#include "hooks/saved_tensor.hpp"
#include "record/replay_errors.hpp"

namespace ebbtide::plugin {
namespace {

void endSaved(void* saved) {
  delete static_cast<SavedTensor*>(saved);
}

}  // namespace

at::Tensor standInFor(const at::Tensor& tensor) {
  auto saved = std::make_unique<SavedTensor>(&tensor, SavedTensor::Keeper::kFrame);
  saved->call_pack_hook(tensor);
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  c10::DataPtr none(nullptr, saved.release(), &endSaved, tensor.device());
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       std::move(none), nullptr, false);
  storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
      lostValue("a tensor of a checkpoint's was read past torch.utils.checkpoint"));
  return TensorView::of(tensor).on(c10::Storage(std::move(storage)));
}

at::Tensor contentsOf(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return {};
  c10::StorageImpl* const storage =
      tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  if (data.get_deleter() != &endSaved) return {};
  return static_cast<SavedTensor*>(data.get_context())->call_unpack_hook();
}

}  // namespace ebbtide::plugin
