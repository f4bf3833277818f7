#include "record/op_info.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "runtime/session.hpp"
#include "verify/deterministic_ops.hpp"

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

// Running statistics are updated without an alias annotation (pytorch 96136).
void noteSilentMutation(OpInfo& info) {
  if (!isOneOf(info.name,
               {"aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm",
                "aten::_batch_norm_impl_index", "aten::batch_norm_update_stats"})) {
    return;
  }
  const auto& arguments = info.handle.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i].name();
    if (name == "running_mean" || name == "running_var")
      info.statistics.push_back(static_cast<int>(i));
    if (name == "training") info.training_argument = static_cast<int>(i);
  }
}

// Collectives write their tensors without saying so, and without a new version.
void noteCollective(OpInfo& info) {
  if (!info.name.starts_with("c10d::")) return;
  const auto& arguments = info.handle.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto kind = arguments[i].type()->kind();
    if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType) continue;
    info.writes[i] = true;
    info.mutates = true;
  }
}

std::unique_ptr<OpInfo> describe(const c10::OperatorHandle& handle) {
  auto info = std::make_unique<OpInfo>(handle);
  const auto& schema = handle.schema();
  info->name = schema.name();
  if (Session* const session = Session::current())
    info->number = session->outputs().counters.numberOf(info->name);
  info->hash = fnv1a(schema.name() + "." + schema.overload_name());
  info->transparent = handle.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  for (const auto key : {c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}) {
    if (handle.hasKernelForDispatchKey(key))
      info->autocast_kernels = info->autocast_kernels.add(key);
  }
  for (const auto& argument : schema.arguments()) {
    const bool writes = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    info->writes.push_back(writes);
    info->mutates = info->mutates || writes;
    if (argument.name() == "generator") {
      info->seeded = true;
      info->generator_argument = static_cast<int>(info->writes.size()) - 1;
    }
  }
  noteCollective(*info);
  info->makes_values = info->mutates;
  for (const auto& result : schema.returns()) {
    const bool tensor = result.type()->kind() == c10::TypeKind::TensorType ||
                        result.type()->kind() == c10::TypeKind::ListType;
    if (tensor && result.alias_info() == nullptr) info->makes_values = true;
  }
  for (const auto& tag : handle.getTags()) {
    if (tag == at::Tag::nondeterministic_seeded) info->seeded = true;
  }
  // Of a library that we do not know an op may have effects outside its results. Ranks that replay
  // different collectives hang (pytorch 147561).
  info->never_replay =
      !startsWithOneOf(info->name, {"aten::", "torchvision::"}) ||
      isOneOf(info->name,
              {"aten::set_", "aten::resize_", "aten::resize_as_", "aten::_local_scalar_dense",
               // Running statistics again, of nothing else.
               "aten::batch_norm_update_stats",
               // The same, which their schemas do not say.
               "aten::batch_norm_gather_stats", "aten::batch_norm_gather_stats_with_counts",
               // cuDNN's dropout goes on in a state of its own, which
               // each call moves on and no schema says it writes.
               "aten::_cudnn_rnn", "aten::_cudnn_init_dropout_state", "aten::miopen_rnn"});
  info->uninitialised =
      startsWithOneOf(info->name, {"aten::empty", "aten::new_empty", "aten::_empty_affine"});
  info->overwrites_fully =
      isOneOf(info->name, {"aten::bernoulli_", "aten::fill_", "aten::zero_", "aten::normal_",
                           "aten::uniform_", "aten::random_", "aten::exponential_", "aten::copy_",
                           "aten::log_normal_", "aten::cauchy_", "aten::geometric_",
                           // In training; of its noise. Else the verification step finds the rest
                           // unwritten.
                           "aten::rrelu_with_noise"});
  info->repeats_because = whyDeterministic(info->name);
  info->may_differ_on_gpu = mayDifferOnGpu(info->name);
  info->may_race_on_host = mayRaceOnHost(info->name);
  info->often_written_unseen = isOftenWrittenUnseen(info->name);
  noteSilentMutation(*info);
  return info;
}

}  // namespace

namespace {

c10::ArrayRef<const c10::IValue> lastOf(c10::ArrayRef<const c10::IValue> stack, std::size_t count) {
  if (stack.size() < count) return {};
  return stack.slice(stack.size() - count);
}

}  // namespace

bool OpInfo::updatesStatistics(c10::ArrayRef<const c10::IValue> arguments) const {
  if (statistics.empty() || arguments.empty()) return false;
  return training_argument < 0 || arguments[training_argument].toBool();
}

bool OpInfo::isStatistic(int argument) const {
  return std::find(statistics.begin(), statistics.end(), argument) != statistics.end();
}

c10::ArrayRef<const c10::IValue> argumentsOf(const OpInfo& info, const at::RecordFunction& call) {
  return lastOf(call.inputs(), info.handle.schema().arguments().size());
}

c10::ArrayRef<const c10::IValue> resultsOf(const OpInfo& info, const at::RecordFunction& call) {
  const auto& stack = call.outputs();
  return lastOf(c10::ArrayRef<const c10::IValue>(stack.data(), stack.size()),
                info.handle.schema().returns().size());
}

namespace {

// What a thread has looked up, by the address of the schema's name: one an overload. Another
// schema's name may come to lie there: the names are compared. In one line of the cache, for a
// call misses what kernels have driven out of it.
class alignas(64) KnownCall {
 public:
  const OpInfo* find(const char* address) const noexcept {
    const bool same = address_ == address && std::strcmp(itsName(), address) == 0;
    return same ? info_ : nullptr;
  }
  void set(const char* address, const OpInfo* info) noexcept {
    address_ = address;
    info_ = info;
    is_short_ = info->name.size() < sizeof name_;
    if (is_short_) std::memcpy(name_, info->name.c_str(), info->name.size() + 1);
  }

 private:
  const char* itsName() const noexcept { return is_short_ ? name_ : info_->name.c_str(); }

  const char* address_ = nullptr;
  const OpInfo* info_ = nullptr;
  bool is_short_ = false;
  char name_[47] = {};
};

constexpr std::size_t kKnownCalls = 512;  // 32 KiB a thread that computes

KnownCall& knownCall(const char* address) {
  thread_local const auto known = std::make_unique<std::array<KnownCall, kKnownCalls>>();
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  return (*known)[(number * 0x9e3779b97f4a7c15ULL) >> 55];  // the upper 9 bits
}

// By its name, once a thread.
const OpInfo* lookUp(const at::RecordFunction& call) {
  static std::mutex mutex;
  static auto* const known =
      new std::unordered_map<std::string, std::unique_ptr<OpInfo>>();  // lives with the process
  const auto name = call.operator_name();
  if (!name) return nullptr;
  const auto handle = c10::Dispatcher::singleton().findSchema(*name);
  if (!handle) return nullptr;
  std::lock_guard lock(mutex);
  auto& entry = (*known)[name->name + "." + name->overload_name];
  // Registered anew under the same name: another schema. The old one may still be referred to.
  if (!entry || entry->writes.size() != handle->schema().arguments().size())
    static_cast<void>(entry.release());
  if (!entry) entry = describe(*handle);
  return entry.get();
}

}  // namespace

const OpInfo* opInfo(const at::RecordFunction& call) {
  const char* const address = call.name();
  KnownCall& known = knownCall(address);
  if (const OpInfo* const info = known.find(address)) return info;
  const OpInfo* const info = lookUp(call);
  if (info != nullptr) known.set(address, info);
  return info;
}

}  // namespace ebbtide::plugin
