// CountedJobStore: what a rank exchanges with the job's store, by what the store is asked for.
// Torch-free.
#pragma once

#include <cstdint>
#include <memory>

#include "job/job_store.hpp"

namespace ebbtide::plugin {

// Bytes of keys and values, without what the store's own protocol adds.
struct JobTraffic {
  std::int64_t written_bytes = 0;  // keys and values set, keys asked for or removed
  std::int64_t read_bytes = 0;     // values that were there
};

class CountedJobStore final : public JobStore {
 public:
  // `traffic` outlives it; it is of the thread that calls.
  CountedJobStore(std::unique_ptr<JobStore> store, JobTraffic& traffic);

  bool connected() override { return store_->connected(); }
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  void remove(const std::string& key) override;

 private:
  const std::unique_ptr<JobStore> store_;
  JobTraffic& traffic_;
};

}  // namespace ebbtide::plugin
