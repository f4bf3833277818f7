#include "op_info.hpp"

#include <array>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

namespace ebbtide::plugin {
namespace {

bool isOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view candidate : names) {
    if (candidate == name) return true;
  }
  return false;
}

bool startsWithOneOf(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  for (std::string_view prefix : prefixes) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

// Running statistics are updated without an alias annotation (pytorch 96136): a replay in training
// leaves them out, since the outputs depend on the batch alone.
void noteSilentMutation(OpInfo& info) {
  if (!isOneOf(info.name, {"aten::native_batch_norm", "aten::cudnn_batch_norm",
                           "aten::miopen_batch_norm", "aten::_batch_norm_impl_index"})) {
    return;
  }
  const auto& arguments = info.handle.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i].name();
    if (name == "running_mean" || name == "running_var")
      info.blank_in_training.push_back(static_cast<int>(i));
    if (name == "training") info.training_argument = static_cast<int>(i);
  }
}

std::unique_ptr<OpInfo> describe(const c10::OperatorHandle& handle) {
  auto info = std::make_unique<OpInfo>(handle);
  const auto& schema = handle.schema();
  info->name = schema.name();
  info->hash = fnv1a(schema.name() + "." + schema.overload_name());
  info->transparent = handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  info->autocast_kernel = handle.hasKernelForDispatchKey(c10::DispatchKey::AutocastCPU);
  for (const auto& argument : schema.arguments()) {
    const bool writes = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    info->writes.push_back(writes);
    info->mutates = info->mutates || writes;
    if (argument.name() == "generator") info->seeded = true;
  }
  info->makes_values = info->mutates;
  for (const auto& result : schema.returns()) {
    const bool tensor = result.type()->kind() == c10::TypeKind::TensorType ||
                        result.type()->kind() == c10::TypeKind::ListType;
    if (tensor && result.alias_info() == nullptr) info->makes_values = true;
  }
  for (const auto& tag : handle.getTags()) {
    if (tag == at::Tag::nondeterministic_seeded) info->seeded = true;
  }
  // Ranks that replay different collectives hang (pytorch 147561).
  info->never_replay =
      startsWithOneOf(info->name,
                      {"c10d::", "_c10d_functional::", "fsdp::", "symm_mem::", "prims::rng"}) ||
      isOneOf(info->name, {"aten::set_", "aten::resize_", "aten::resize_as_",
                           "aten::_local_scalar_dense", "aten::native_dropout_backward"});
  info->uninitialised =
      startsWithOneOf(info->name, {"aten::empty", "aten::new_empty", "aten::_empty_affine"});
  info->overwrites_fully =
      isOneOf(info->name, {"aten::bernoulli_", "aten::fill_", "aten::zero_", "aten::normal_",
                           "aten::uniform_", "aten::random_", "aten::exponential_", "aten::copy_",
                           "aten::log_normal_", "aten::cauchy_", "aten::geometric_"});
  noteSilentMutation(*info);
  return info;
}

}  // namespace

const OpInfo* opInfo(const at::RecordFunction& call) {
  static std::mutex mutex;
  static auto* const known =
      new std::unordered_map<std::string, std::unique_ptr<OpInfo>>();  // lives with the process
  thread_local std::unordered_map<std::string, const OpInfo*> cache;
  const auto name = call.operator_name();
  if (!name) return nullptr;
  std::string key = name->name;
  key += '.';
  key += name->overload_name;
  if (const auto found = cache.find(key); found != cache.end()) return found->second;
  const auto handle = c10::Dispatcher::singleton().findSchema(*name);
  if (!handle) return nullptr;
  std::lock_guard lock(mutex);
  auto& entry = (*known)[key];
  if (!entry) entry = describe(*handle);
  return cache[key] = entry.get();
}

}  // namespace ebbtide::plugin
