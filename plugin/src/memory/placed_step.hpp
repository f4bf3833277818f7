// PlacedStep: the blocks of a recorded step placed, and the placement judged. Torch-free.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>

#include "ebbtide/allocator/step_lifetimes.hpp"
#include "ebbtide/scheduler/cyclic_placement.hpp"

namespace ebbtide::plugin {

struct PlacedStep {
  allocator::PlacedSequence sequence;
  scheduler::Placement placement;  // an offset for each of the step's lifetimes
};

using StepPlacer = std::function<scheduler::Placement(const scheduler::CyclicPlacementProblem&,
                                                      const scheduler::PlacementOptions&)>;

// Ends within `longest`, and once `cancelled` is true, but for the first packing. Throws
// std::runtime_error when the placement is not legal, and what the placer throws.
PlacedStep placeRecordedStep(const allocator::StepLifetimes& step, std::chrono::nanoseconds longest,
                             const StepPlacer& placer = scheduler::placeInCycle,
                             const std::atomic<bool>* cancelled = nullptr);

}  // namespace ebbtide::plugin
