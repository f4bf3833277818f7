#include "placed_loop.hpp"

#include <chrono>

#include "ebbtide/allocator/step_lifetimes.hpp"
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

allocator::StepLifetimes recordFirstStep(const ReplayLoop& loop) {
  Replay<Recorded, Touch::kNothing> replay(loop, [](Recorded&) {});
  allocator::DeviceMemory& memory = replay.subject().memory();
  memory.recording().start(memory.blockBytesFor(memory.pool().mostSmallBytes() + 1));
  for (int steps = 0; steps < 2; steps += static_cast<int>(loop.steps.size())) replay.once();
  memory.recording().mark();
  allocator::RequestLog log = memory.recording().stop();
  log.marks.resize(3);
  return allocator::stepLifetimes(log, /*phases=*/1);
}

}  // namespace

plugin::PlacedStep placeLoop(const ReplayLoop& loop) {
  return plugin::placeRecordedStep(recordFirstStep(loop), kPlacingTime);
}

}  // namespace ebbtide::benchmarks
