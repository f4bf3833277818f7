#include <memory>
#include <utility>

#include "job/counted_job_store.hpp"
#include "job_store_contract.hpp"
#include "memory_job_store.hpp"

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

JobOfTwo counted() {
  JobOfTwo job = inMemory();
  static JobTraffic traffic;
  job.here = std::make_unique<CountedJobStore>(std::move(job.here), traffic);
  job.there = std::make_unique<CountedJobStore>(std::move(job.there), traffic);
  return job;
}

INSTANTIATE_TEST_SUITE_P(Stores, JobStoreContract,
                         testing::Values(JobStoreKind{"Memory", inMemory},
                                         JobStoreKind{"Counted", counted}),
                         [](const auto& kind) { return kind.param.name; });

TEST(CountedJobStore, CountsKeysAndValues) {
  JobTraffic traffic;
  CountedJobStore store(inMemory().here, traffic);
  store.set("key", "12345");
  EXPECT_EQ(traffic.written_bytes, 8);
  store.get("key");
  store.get("none");  // 3 and 4 bytes asked for
  EXPECT_EQ(traffic.written_bytes, 15);
  EXPECT_EQ(traffic.read_bytes, 5);
  store.remove("key");
  EXPECT_EQ(traffic.written_bytes, 18);
  EXPECT_EQ(traffic.read_bytes, 5);
}

}  // namespace
}  // namespace ebbtide::plugin
