#include "cuda/history_adapter.hpp"

#include <iterator>

namespace ebbtide::plugin::cuda {

torch_cuda::SnapshotInfo HistoryAdapter::snapshot(c10::MempoolId_t pool, bool include_traces) {
  const auto nanoseconds = clock_.makeConverter();
  const auto microseconds = [&nanoseconds](c10::approx_time_t time) {
    return nanoseconds(time) / 1000;
  };
  torch_cuda::SnapshotInfo info{};  // later torches have more in it
  for (int device = 0; device < heaps().count(); ++device) {
    auto& traces = info.device_traces.emplace_back();
    DeviceHeap* const open = heaps().openHeap(static_cast<c10::DeviceIndex>(device));
    if (open == nullptr) continue;
    auto segments = open->ledger().snapshot(pool);
    info.segments.insert(info.segments.end(), std::make_move_iterator(segments.begin()),
                         std::make_move_iterator(segments.end()));
    if (include_traces) traces = open->ledger().history(microseconds);
  }
  for (auto& segment : foreignPools().segments(pool)) info.segments.push_back(std::move(segment));
  info.external_annotations = annotations_.entries(microseconds);
  info.config_metadata.garbage_collection_threshold = 0;
  info.config_metadata.max_split_size = SIZE_MAX;
  info.config_metadata.pinned_num_register_threads = 1;
  info.config_metadata.expandable_segments = true;
  info.config_metadata.release_lock_on_malloc = true;
  info.config_metadata.pinned_use_host_register = false;
  info.config_metadata.graph_capture_record_stream_reuse = false;
  info.config_metadata.last_allocator_settings = name();
  return info;
}

void HistoryAdapter::recordHistory(bool enabled,
                                   c10::CachingDeviceAllocator::CreateContextFn create_context,
                                   std::size_t most_entries,
                                   c10::CachingDeviceAllocator::RecordContext when,
                                   bool clear_history,
                                   const std::vector<std::string>& skip_actions) {
  heaps().historySettings().set(enabled, create_context, when, skip_actions);
  const bool clear = !enabled || clear_history;
  annotations_.setMost(most_entries, clear);
  heaps().setHistory(most_entries, clear);
}

void HistoryAdapter::recordAnnotation(
    const std::vector<std::pair<std::string, std::string>>& pairs) {
  if (!heaps().historySettings().enabled()) return;
  Annotations::Entry entry(heaps().source().currentDevice(), c10::getApproximateTime());
  for (const auto& [key, value] : pairs) entry.recordUserMetadata(key, value);
  annotations_.add(std::move(entry));
}

void HistoryAdapter::attachOutOfMemoryObserver(torch_cuda::OutOfMemoryObserver observer) {
  heaps().outOfMemoryObservers().add(std::move(observer));
}

void HistoryAdapter::attachAllocatorTraceTracker(torch_cuda::AllocatorTraceTracker tracker) {
  heaps().addTracker(tracker);
}

}  // namespace ebbtide::plugin::cuda
