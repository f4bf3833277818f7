#include "record/messages.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "record/c10d_job_store.hpp"
#include "record/op_info.hpp"
#include "record/op_record.hpp"

namespace ebbtide::plugin {
namespace {

// (Tensor[] tensors, ProcessGroup group, int peer, int tag); of recv_any_source_ without a peer.
constexpr std::size_t kGroup = 1;
constexpr std::size_t kPeer = 2;

// Bytes of what a stage hands on; 0: nothing of that kind.
scheduler::Bytes bytesHandedOn(const c10::IValue& tensors) {
  scheduler::Bytes bytes = 0;
  std::int64_t numbers = 0;
  forEachTensor(tensors, [&](int, int, const at::Tensor& tensor) {
    if (!tensor.is_floating_point() && !tensor.is_complex()) return;
    bytes += static_cast<scheduler::Bytes>(tensor.nbytes());
    numbers += tensor.numel();
  });
  return numbers > 1 ? bytes : 0;
}

std::string nameOf(const c10d::ProcessGroup& group) {
  try {
    return group.getGroupName();
  } catch (const std::exception&) {  // it was given none
    return "";
  }
}

// Not kept alive: a program may take its groups down while we look at their store.
class LastGroup {
 public:
  void set(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
    const std::lock_guard lock(mutex_);
    if (address_ == group.get()) return;
    address_ = group.get();
    group_ = c10::weak_intrusive_ptr<c10d::ProcessGroup>(group);
  }
  c10::intrusive_ptr<c10d::ProcessGroup> get() {
    const std::lock_guard lock(mutex_);
    return group_ ? group_->lock() : c10::intrusive_ptr<c10d::ProcessGroup>();
  }

 private:
  std::mutex mutex_;
  const c10d::ProcessGroup* address_ = nullptr;  // not to be followed
  std::optional<c10::weak_intrusive_ptr<c10d::ProcessGroup>> group_;
};

LastGroup& lastGroup() {
  static auto* const group = new LastGroup;  // leaked: threads outlive exit
  return *group;
}

}  // namespace

bool isMessage(const at::RecordFunction& call) {
  const char* const name = call.name();
  if (std::strncmp(name, "c10d::", 6) != 0) return false;
  const std::string_view op(name + 6);
  return op == "send" || op == "recv_" || op == "recv_any_source_";
}

bool isReceive(const at::RecordFunction& call) {
  return isMessage(call) && std::strcmp(call.name(), "c10d::send") != 0;
}

std::optional<GroupMessage> groupMessageOf(const at::RecordFunction& call) try {
  if (!isMessage(call)) return std::nullopt;
  const OpInfo* info = opInfo(call);
  if (info == nullptr) return std::nullopt;
  const auto arguments = argumentsOf(*info, call);
  if (arguments.size() <= kPeer) return std::nullopt;
  GroupMessage found;
  found.message.bytes = bytesHandedOn(arguments[0]);
  if (found.message.bytes == 0) return std::nullopt;
  const std::string_view name = info->name;
  found.message.receive = name != "c10d::send";
  found.message.peer = name == "c10d::recv_any_source_"
                           ? scheduler::kNone
                           : static_cast<std::int32_t>(arguments[kPeer].toInt());
  const auto group = arguments[kGroup].toCustomClass<c10d::ProcessGroup>();
  lastGroup().set(group);
  found.group = nameOf(*group);
  found.rank = group->getRank();
  found.size = group->getSize();
  return found;
} catch (const std::exception&) {  // a group of another kind
  return std::nullopt;
}

std::unique_ptr<JobStore> storeOfMessages(const std::string& name) try {
  const auto group = lastGroup().get();
  return group && nameOf(*group) == name ? makeJobStore(group) : nullptr;
} catch (const std::exception&) {
  return nullptr;
}

}  // namespace ebbtide::plugin
