#include "job/counted_job_store.hpp"

#include <utility>

namespace ebbtide::plugin {
namespace {

std::int64_t bytes(const std::string& text) {
  return static_cast<std::int64_t>(text.size());
}

}  // namespace

CountedJobStore::CountedJobStore(std::unique_ptr<JobStore> store, JobTraffic& traffic)
    : store_(std::move(store)), traffic_(traffic) {}

void CountedJobStore::set(const std::string& key, const std::string& value) {
  traffic_.written_bytes += bytes(key) + bytes(value);
  store_->set(key, value);
}

std::optional<std::string> CountedJobStore::get(const std::string& key) {
  traffic_.written_bytes += bytes(key);
  std::optional<std::string> value = store_->get(key);
  if (value) traffic_.read_bytes += bytes(*value);
  return value;
}

void CountedJobStore::remove(const std::string& key) {
  traffic_.written_bytes += bytes(key);
  store_->remove(key);
}

}  // namespace ebbtide::plugin
