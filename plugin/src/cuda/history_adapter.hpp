// HistoryAdapter: what torch asks of its allocator about what happened: snapshots, the history and
// what is noted beside it, and who is told of it.
//
// Thread rule: any thread.
#pragma once

#include <c10/util/ApproximateClock.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/annotations.hpp"
#include "cuda/pools_adapter.hpp"

namespace ebbtide::plugin::cuda {

class HistoryAdapter : public PoolsAdapter {
 public:
  torch_cuda::SnapshotInfo snapshot(c10::MempoolId_t pool, bool include_traces) override;
  bool isHistoryEnabled() override { return heaps().historySettings().enabled(); }
  void recordHistory(bool enabled, c10::CachingDeviceAllocator::CreateContextFn create_context,
                     std::size_t most_entries, c10::CachingDeviceAllocator::RecordContext when,
                     bool clear_history, const std::vector<std::string>& skip_actions) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& pairs) override;
  void pushCompileContext(std::string& text) override { HistorySettings::pushCompileContext(text); }
  void popCompileContext() override { HistorySettings::popCompileContext(); }
  void setUserMetadata(const std::string& text) override {
    heaps().historySettings().setUserMetadata(text);
  }
  std::string getUserMetadata() override { return heaps().historySettings().userMetadata(); }
  void attachOutOfMemoryObserver(torch_cuda::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(torch_cuda::AllocatorTraceTracker tracker) override;

  // Torch after 2.11 calls these, too; no `override`, since earlier versions lack them. The
  // observer hears of requests that a policy refuses; ours are reported as failures.
  void attachOomRejectionObserver(
      std::function<void(std::int64_t, std::size_t, std::size_t, std::size_t)>) {}
  bool supportsUserMetadata() { return true; }

 protected:
  using PoolsAdapter::PoolsAdapter;

 private:
  Annotations annotations_;
  c10::ApproximateClockToUnixTimeConverter clock_;
};

}  // namespace ebbtide::plugin::cuda
