// LiveRuns: the steps whose saved tensors still live; the allocator's reclaimer. Includes torch (by
// StepRun).
#pragma once

#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <vector>

#include "ebbtide/allocator/reclaimer.hpp"
#include "execute/step_run.hpp"

namespace ebbtide::plugin {

class LiveRuns final : public allocator::Reclaimer {
 public:
  void add(const std::shared_ptr<StepRun>& run);
  // A tensor is about to be written, on any thread, by what `recording` (nullptr: nobody) does not
  // record itself.
  void noteWrite(const at::Tensor& tensor, const StepRun* recording = nullptr);
  // A tensor was given other data (`p.data = …`), is about to be detached in place; any thread.
  void expectOtherData(const at::Tensor& tensor);
  void noteOtherData(const at::Tensor& tensor);
  void noteDetached(const at::Tensor& tensor);
  // A node of a backward pass begins on a thread that has no step. Its step is not known, so every
  // step that has not ended notes it.
  void noteBackwardNode(const char* name);
  // May another live step than `recording` still run ops again? If not, only its own thread's
  // writes matter to it.
  bool replaysToCome(const StepRun* recording = nullptr) const noexcept;
  // Does another step live, of another thread or with a graph that was kept?
  bool others(const StepRun* run) const;
  // This step is over, and may be read soon. Returns the bytes that ended steps before it left on
  // the host unread. They are 0 until kUnreadSteps steps, in a row or not, have left some that are
  // still there. A program that frees its graphs now and then has fewer at a time.
  static constexpr std::size_t kUnreadSteps = 8;
  StepRun::UnreadSpills leftUnread(const StepRun& newest) const;
  // Of all steps whose saved tensors live. False: none of these observes the allocator.
  bool nameBlocks(LiveShares& live, StepRun::Failing by) const;
  // For pthread_atfork: a child may run what its parent saved backward, and lets go of it.
  void lockForFork();
  void unlockAfterFork();
  allocator::Bytes reclaim(const allocator::ReclaimRequest& request) noexcept override;

 private:
  c10::SmallVector<std::shared_ptr<StepRun>, 4> alive() const;

  mutable std::mutex mutex_;  // guards both lists only
  std::vector<std::weak_ptr<StepRun>> runs_;
  std::vector<std::shared_ptr<StepRun>> locked_;  // for a fork
};

LiveRuns& liveRuns();  // the process's

}  // namespace ebbtide::plugin
