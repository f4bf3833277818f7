#include "step_placement.hpp"

#include <chrono>
#include <stdexcept>

#include "ebbtide/allocator/recorded_step.hpp"
#include "ebbtide/scheduler/cyclic_placement.hpp"
#include "replay.hpp"
#include "subjects.hpp"

namespace ebbtide::benchmarks {
namespace {

constexpr auto kPlacingTime = std::chrono::milliseconds(500);  // the plugin takes up to two seconds

// Notes where steps begin.
class Recorded : public Fallback {
 public:
  using Fallback::Fallback;
  void beginStep(std::size_t) noexcept { memory().recording().mark(); }
};

allocator::RecordedStep recordFirstStep(const ReplayLoop& loop) {
  Replay<Recorded, Touch::kNothing> replay(loop, [](Recorded&) {});
  allocator::DeviceMemory& memory = replay.subject().memory();
  memory.recording().start(memory.blockBytesFor(memory.pool().mostSmallBytes() + 1));
  for (int steps = 0; steps < 2; steps += static_cast<int>(loop.steps.size())) replay.once();
  memory.recording().mark();
  allocator::RequestLog log = memory.recording().stop();
  log.marks.resize(3);
  return allocator::recordedStep(log, /*phases=*/1);
}

}  // namespace

StepPlacement placeStep(const ReplayLoop& loop) {
  const allocator::RecordedStep step = recordFirstStep(loop);
  scheduler::CyclicPlacementProblem cycle;
  cycle.period = step.period;
  cycle.problem.alignment_bytes = allocator::kUnitBytes;
  for (const auto& life : step.lifetimes) {
    cycle.problem.buffers.push_back({life.begin, life.end, life.bytes});
  }
  scheduler::PlacementOptions options;
  options.deadline = std::chrono::steady_clock::now() + kPlacingTime;
  const scheduler::Placement placement = scheduler::placeInCycle(cycle, options);
  if (const auto fault = scheduler::validateInCycle(cycle, placement)) {
    throw std::runtime_error(*fault);
  }
  return {.sequence = allocator::placedSequence(step, placement.offsets),
          .lifetimes = static_cast<std::int64_t>(step.lifetimes.size()),
          .load_bytes = placement.load_bytes,
          .height_bytes = placement.height_bytes};
}

}  // namespace ebbtide::benchmarks
