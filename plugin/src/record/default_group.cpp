// torch.distributed registers each group by its name (GroupRegistry.cpp); init_process_group()
// names the first one it makes, the default one, "0" (_process_group_name() in
// distributed_c10d.py).
#include "record/default_group.hpp"

#include <exception>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "record/c10d_job_store.hpp"

namespace ebbtide::plugin {
namespace {

// Throws where there is none, as torch does.
c10::intrusive_ptr<c10d::ProcessGroup> registered() {
  return c10d::resolve_process_group("0");
}

}  // namespace

std::optional<GroupPlace> defaultGroup() noexcept try {
  const auto group = registered();
  if (!group) return std::nullopt;
  return GroupPlace{group->getRank(), group->getSize()};
} catch (...) {
  return std::nullopt;
}

std::unique_ptr<JobStore> storeOfDefaultGroup() noexcept try {
  const auto group = registered();
  return group ? makeJobStore(group) : nullptr;
} catch (...) {
  return nullptr;
}

}  // namespace ebbtide::plugin
