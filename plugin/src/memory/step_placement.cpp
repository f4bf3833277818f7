#include "memory/step_placement.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "config/config.hpp"
#include "memory/placed_step.hpp"

namespace ebbtide::plugin {
namespace {

constexpr std::int64_t kDeviationShare = 20;  // more than one of the step's blocks in so many

}  // namespace

std::int64_t StepPlacement::deviations() const noexcept {
  return memory_.planned().deviations() + memory_.planned().latePlaces();
}

void StepPlacement::beginStep(const std::shared_ptr<const Plan>& plan) {
  {
    std::lock_guard lock(mutex_);
    std::erase_if(places_, [](const auto& entry) { return entry.first.expired(); });
    thread_ = std::this_thread::get_id();
    in_backward_ = false;
    if (recorded_plan_ != nullptr) goOnRecording(plan);
  }
  follow(plan);
}

void StepPlacement::changePlan(const std::shared_ptr<const Plan>& plan) {
  {
    std::lock_guard lock(mutex_);
    if (thread_ != std::this_thread::get_id()) return;
    stopRecording();
  }
  follow(plan);
}

void StepPlacement::follow(const std::shared_ptr<const Plan>& plan) {
  std::shared_ptr<const allocator::PlacedSequence> sequence;
  {
    std::lock_guard lock(mutex_);
    plan_ = plan;
    deviations_before_ = deviations();
    requests_before_ = memory_.planned().requestedBlocks();
    const auto place = plan != nullptr ? places_.find(plan) : places_.end();
    if (place != places_.end()) {
      sequence = place->second.sequence;
      if (recorded_plan_ == nullptr) startRecording(plan, place->second);
    }
  }
  memory_.planned().beginStep(allocator::Stream::kDefault, std::move(sequence),
                              /*this_thread_only=*/true);
}

void StepPlacement::startRecording(const std::shared_ptr<const Plan>& plan, Place& place) {
  if (!place.steady || place.sequence != nullptr || work_plan_ != nullptr) return;
  if (place.recordings == kMostRecordings) return;
  ++place.recordings;
  recorded_plan_ = plan;
  recorded_steps_ = 1;
  memory_.recording().start(memory_.blockBytesFor(memory_.pool().mostSmallBytes() + 1));
  memory_.recording().mark();
}

// Two steps in a row, and the begin of a third.
void StepPlacement::goOnRecording(const std::shared_ptr<const Plan>& plan) {
  memory_.recording().mark();
  if (recorded_steps_ == 1 && plan == recorded_plan_) {
    recorded_steps_ = 2;
    return;
  }
  const allocator::RequestLog log = memory_.recording().stop();
  if (recorded_steps_ == 2) {
    work_ = allocator::recordedStep(log, kPhases);
    if (!work_.lifetimes.empty()) work_plan_ = recorded_plan_;
  }
  recorded_plan_ = nullptr;
}

void StepPlacement::stopRecording() {
  if (recorded_plan_ == nullptr) return;
  memory_.recording().stop();
  recorded_plan_ = nullptr;
}

void StepPlacement::beginBackward() {
  std::lock_guard lock(mutex_);
  if (thread_ != std::this_thread::get_id() || std::exchange(in_backward_, true)) return;
  memory_.recording().mark();
  memory_.planned().beginPhase(allocator::Stream::kDefault, 1);
}

void StepPlacement::endStep(bool as_planned) {
  std::lock_guard lock(mutex_);
  if (plan_ == nullptr || !as_planned || !in_backward_) {
    stopRecording();
    return;
  }
  Place& place = places_[plan_];
  place.steady = true;
  if (place.sequence == nullptr) return;
  const std::int64_t blocks = memory_.planned().requestedBlocks() - requests_before_;
  const bool deviates = (deviations() - deviations_before_) * kDeviationShare > blocks;
  place.deviating_steps = deviates ? place.deviating_steps + 1 : 0;
  if (place.deviating_steps == kMostDeviatingSteps) {
    place.sequence = nullptr;
    place.deviating_steps = 0;
  }
}

bool StepPlacement::hasWork() const {
  std::lock_guard lock(mutex_);
  return work_plan_ != nullptr;
}

std::string StepPlacement::place(const std::atomic<bool>* cancelled) {
  std::shared_ptr<const Plan> plan;
  allocator::RecordedStep step;
  {
    std::lock_guard lock(mutex_);
    plan = work_plan_;
    step = std::exchange(work_, {});
  }
  PlacedStep placed;
  try {
    placed = placeRecordedStep(step, placing_time_, placer_, cancelled);
  } catch (...) {
    std::lock_guard lock(mutex_);
    work_plan_ = nullptr;
    throw;
  }
  {
    std::lock_guard lock(mutex_);
    work_plan_ = nullptr;
    places_[plan].sequence =
        std::make_shared<const allocator::PlacedSequence>(std::move(placed.sequence));
  }
  return fmt::format("{} of {} blocks placed by {}: {}, their load {}", step.placed.size(),
                     step.units.size(), placed.placement.method,
                     formatBytes(placed.placement.height_bytes),
                     formatBytes(placed.placement.load_bytes));
}

}  // namespace ebbtide::plugin
