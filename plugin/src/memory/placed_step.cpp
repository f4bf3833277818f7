#include "memory/placed_step.hpp"

#include <stdexcept>
#include <utility>

namespace ebbtide::plugin {
namespace {

constexpr double kLowEnough = 1.002;  // times LOAD: not worth to look for a lower placement

}  // namespace

PlacedStep placeRecordedStep(const allocator::StepLifetimes& step, std::chrono::nanoseconds longest,
                             const StepPlacer& placer, const std::atomic<bool>* cancelled) {
  scheduler::CyclicPlacementProblem cycle;
  cycle.period = step.period;
  cycle.problem.alignment_bytes = allocator::kUnitBytes;
  for (const auto& life : step.lifetimes) {
    cycle.problem.buffers.push_back({life.begin, life.end, life.bytes});
  }
  scheduler::PlacementOptions options;
  options.deadline = std::chrono::steady_clock::now() + longest;
  options.cancelled = cancelled;
  options.capacity_bytes =
      static_cast<allocator::Bytes>(kLowEnough * static_cast<double>(cyclicLoad(cycle)));
  scheduler::Placement placement = placer(cycle, options);
  if (const auto fault = validateInCycle(cycle, placement)) {
    throw std::runtime_error("the placement is not legal: " + *fault);
  }
  return {allocator::placedSequence(step, placement.offsets), std::move(placement)};
}

}  // namespace ebbtide::plugin
