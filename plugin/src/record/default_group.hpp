// The default process group of torch.distributed: which rank this process is, and the store that
// its ranks share. Includes torch.
#pragma once

#include <memory>
#include <optional>

#include "config/rank_place.hpp"
#include "job/job_store.hpp"

namespace ebbtide::plugin {

// Nothing: there is none (yet). Waits for nobody. On any thread.
std::optional<GroupPlace> defaultGroup() noexcept;

// nullptr: the group is gone, or its store is of a kind that cannot be used. On any thread.
std::unique_ptr<JobStore> storeOfDefaultGroup() noexcept;

}  // namespace ebbtide::plugin
