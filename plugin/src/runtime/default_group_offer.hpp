// DefaultGroupOffer: how to find the job's default process group, as far as its launcher's
// variables leave open which rank this process is (rank_discovery.hpp). Torch-free.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "config/rank_place.hpp"
#include "job/job_store.hpp"

namespace ebbtide::plugin {

struct DefaultGroupOffer {
  std::function<std::optional<GroupPlace>()> find;  // training threads, between steps; never waits
  std::function<std::unique_ptr<JobStore>()> open;  // the planning thread
};

}  // namespace ebbtide::plugin
