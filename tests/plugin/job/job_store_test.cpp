#include "job/job_store.hpp"

#include <memory>

#include "job/job_store_contract.hpp"
#include "job/memory_job_store.hpp"

namespace ebbtide::plugin {
namespace {

JobOfTwo inMemory() {
  const auto contents = std::make_shared<JobStoreContents>();
  auto here = std::make_unique<MemoryJobStore>(contents);
  auto there = std::make_unique<MemoryJobStore>(contents);
  const auto close = [first = here->faults(), second = there->faults()] {
    first->broken = second->broken = true;
  };
  return {std::move(here), std::move(there), close};
}

INSTANTIATE_TEST_SUITE_P(Stores, JobStoreContract,
                         testing::Values(JobStoreKind{"Memory", inMemory}),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace ebbtide::plugin
