#include "memory/step_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "memory/placed_step.hpp"

namespace ebbtide::plugin {
namespace {

constexpr allocator::Bytes kDeviationShare = 20;  // more than one of the step's bytes in so many

}  // namespace

void StepPlacement::beginStep(const std::shared_ptr<const Plan>& plan) {
  {
    const Held held = guard_.hold();
    std::erase_if(places_, [](const auto& entry) { return entry.first.expired(); });
    thread_ = std::this_thread::get_id();
    in_backward_ = false;
    if (recorded_ != nullptr) goOnRecording(held);
    is_pass_ = plan != nullptr && passes_to_come_ > 0;
    if (is_pass_) --passes_to_come_;
  }
  follow(courseOf(plan));
}

void StepPlacement::changePlan(const std::shared_ptr<const Plan>& plan) {
  {
    const Held held = guard_.hold();
    if (thread_ != std::this_thread::get_id()) return;
    if (recorded_steps_ == 1) takeRecordingBack(held);  // a second one may be any program's
  }
  follow(courseOf(plan));
}

void StepPlacement::follow(const std::shared_ptr<const Course>& course) {
  std::shared_ptr<const allocator::PlacedSequence> sequence;
  {
    const Held held = guard_.hold();
    course_ = course;
    const allocator::PlacedBytes bytes = memory_.placed().placedBytes();
    requested_before_ = bytes.requested;
    misplaced_before_ = bytes.misplaced;
    if (is_pass_) return;  // its addresses are the next ones of the step before
    placed_ = nullptr;
    passes_to_come_ = 0;
    const auto place = course != nullptr ? places_.find(course) : places_.end();
    if (place != places_.end()) {
      sequence = place->second.sequence;
      if (sequence != nullptr) placed_ = course;
      if (sequence != nullptr) passes_to_come_ = place->second.passes;
      if (place->second.wait_steps > 0) --place->second.wait_steps;
      if (recorded_ == nullptr) startRecording(held, course, place->second);
    }
  }
  memory_.placed().beginStep(allocator::Stream::kDefault, std::move(sequence),
                             /*this_thread_only=*/true);
}

void StepPlacement::startRecording(const Held&, const std::shared_ptr<const Course>& course,
                                   Place& place) {
  if (!place.steady || place.wait_steps > 0 || work_course_ != nullptr) return;
  if (place.sequence != nullptr && !place.outdated) return;
  place.wait_steps = kLeastWaitSteps << std::min(place.recordings++, kMostDoublings);
  recorded_ = course;
  recorded_steps_ = 1;
  recorded_passes_ = 0;
  memory_.recording().start(memory_.blockBytesFor(memory_.pool().mostSmallBytes() + 1));
  memory_.recording().mark();
}

// Two steps in a row, and the begin of a third. Of the second one only the frees count: where
// programs take turns, it is another one's.
void StepPlacement::goOnRecording(const Held&) {
  memory_.recording().mark();
  if (recorded_steps_++ == 1) return;
  work_ = allocator::stepLifetimes(memory_.recording().stop(), kPhases);
  if (!work_.lifetimes.empty()) work_course_ = recorded_;
  work_passes_ = recorded_passes_;
  recorded_ = nullptr;
}

void StepPlacement::stopRecording(const Held&) {
  if (recorded_ == nullptr) return;
  memory_.recording().stop();
  recorded_ = nullptr;
}

// What began it is no step of that program, which is still to be recorded.
void StepPlacement::takeRecordingBack(const Held& held) {
  if (recorded_ == nullptr) return;
  Place& guessed = places_[recorded_];
  guessed.wait_steps = 0;
  --guessed.recordings;
  stopRecording(held);
}

void StepPlacement::joinPass(const Held& held) {
  if (recorded_steps_ == 1) return takeRecordingBack(held);
  if (recorded_ == nullptr) return;
  memory_.recording().unmark();
  --recorded_steps_;
  ++recorded_passes_;
}

void StepPlacement::beginBackward() {
  const Held held = guard_.hold();
  if (thread_ != std::this_thread::get_id() || std::exchange(in_backward_, true)) return;
  if (std::exchange(is_pass_, false)) {  // a step has come in place of a pass
    passes_to_come_ = 0;
    if (placed_ != nullptr) places_[placed_].passes = 0;
  }
  memory_.recording().mark();
  memory_.placed().beginPhase(allocator::Stream::kDefault, 1);
}

void StepPlacement::endStep(bool as_planned) {
  const Held held = guard_.hold();
  const bool whole = course_ != nullptr && as_planned;
  if (!in_backward_) return joinPass(held);
  if (!whole && course_ == recorded_) stopRecording(held);
  if (!whole) return;
  Place& place = places_[course_];
  place.steady = true;
  if (place.sequence == nullptr) return;
  // Where pages were short, a new placement would find no more pages.
  const allocator::PlacedBytes bytes = memory_.placed().placedBytes();
  const bool deviates =
      (bytes.misplaced - misplaced_before_) * kDeviationShare > bytes.requested - requested_before_;
  place.deviating_steps = deviates ? place.deviating_steps + 1 : 0;
  place.outdated = place.deviating_steps >= kMostDeviatingSteps;
}

bool StepPlacement::hasWork() const {
  const Held held = guard_.hold();
  return work_course_ != nullptr;
}

std::string StepPlacement::place(const std::atomic<bool>* cancelled) {
  std::shared_ptr<const Course> course;
  allocator::StepLifetimes step;
  {
    const Held held = guard_.hold();
    course = work_course_;
    step = std::exchange(work_, {});
  }
  PlacedStep placed;
  try {
    placed = placeRecordedStep(step, placing_time_, placer_, cancelled);
  } catch (...) {
    const Held held = guard_.hold();
    work_course_ = nullptr;
    throw;
  }
  {
    const Held held = guard_.hold();
    work_course_ = nullptr;
    Place& place = places_[course];
    place.sequence = std::make_shared<const allocator::PlacedSequence>(std::move(placed.sequence));
    place.outdated = false;
    place.deviating_steps = 0;
    place.passes = work_passes_;
  }
  allocator::Bytes placed_bytes = 0, all_bytes = 0;
  for (const auto& life : step.lifetimes) placed_bytes += life.bytes;
  for (const std::uint32_t units : step.units) all_bytes += units * allocator::kUnitBytes;
  return fmt::format(
      "{} of {} blocks placed by {}: {}, their load {}; {} of the {} that a step asks for",
      step.placed.size(), step.units.size(), placed.placement.method,
      formatBytes(placed.placement.height_bytes), formatBytes(placed.placement.load_bytes),
      formatBytes(placed_bytes), formatBytes(all_bytes));
}

}  // namespace ebbtide::plugin
